"""What the documentation names exists, and what exists is documented: files, commands, settings, endpoints, figures."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import click
import pytest
import typer.main
from prometheus_client.metrics_core import Metric

from api.assembly import DoorOptions, create_app
from api.chunking import ChunkingOut
from api.completions import ExtensionOut
from api.connection import TOO_SLOW
from api.document_passages import PieceOut
from api.door import log_line
from api.errors import STATUS
from api.explaining import ExplainedOut, ExplanationOut, PlaceOut, StandingOut
from api.jobs import JobOut
from api.metrics import Metrics
from api.retrieval import ResultOut
from api.settings import table as api_table
from api.timings import LapOut, TimingsOut
from api.visits import Visit
from api.wire import PassageOut
from fleetfoot.command import app
from pipeline.errors import FleetfootError
from pipeline.lane import Lane, LaneOptions
from pipeline.profile import Profile
from tests.fakes_api import FakeStages, Running
from workers.settings import table as worker_table

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("**/*.md"))]
HTTP = (ROOT / "docs" / "http.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
CLIENT = {"FLEETFOOT_URL", "FLEETFOOT_KEY"}  # the command's own
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
CURL = [block for language, block in FENCE.findall(HTTP) if language == "bash" and block.startswith("curl")]
HERE = "http://127.0.0.1:8080"

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code(page: Path) -> Iterator[str]:
    """Every line of a fenced block and every code span."""
    text = page.read_text()
    for _, block in FENCE.findall(text):
        yield from block.splitlines()
    yield from SPAN.findall(FENCE.sub("", text).replace("\n", " "))


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_every_link_points_to_something_that_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pages
def test_every_file_that_is_named_exists(page: Path) -> None:
    folders = {each.name for each in ROOT.iterdir() if each.is_dir()}
    for span in code(page):
        for path in re.findall(r"(?<![\w/.<>{}$-])((?:\w+/)+[\w.-]*\w)(?![\w/{*])", span):
            if path.split("/")[0] in folders:
                assert (ROOT / path).exists(), path


@pages
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in code(page):
        for target in re.findall(r"^make ([a-z][a-z-]*)", line):
            assert target in targets, line


@pages
def test_every_command_that_is_named_exists_with_its_options(page: Path) -> None:
    for line in code(page):
        found = re.match(r"(?:\$ )?(?:\.venv/bin/)?(?:python -m )?fleetfoot (\S.*)", line)
        if found is None:
            continue
        words = shlex.split(found[1], comments=True)
        command: Any = typer.main.get_command(app)
        while isinstance(command, click.Group) or hasattr(command, "commands"):
            if not words or words[0].startswith(("-", "…")):
                break
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.split("=")[0] in known, line


@pages
def test_every_setting_that_is_named_exists(page: Path) -> None:
    known = {name for name, _, _ in (*api_table(), *worker_table())} | CLIENT
    assert set(re.findall(r"FLEETFOOT_[A-Z_]*[A-Z]", page.read_text())) <= known


def test_every_command_that_the_program_itself_recommends_exists() -> None:
    commands = cast("Any", typer.main.get_command(app)).commands
    for room in ("api", "workers", "ingest", "retrieve", "rerank", "generate", "context", "pipeline", "fleetfoot"):
        for file in (ROOT / room).rglob("*.py"):
            for verb in re.findall(r"`fleetfoot ([a-z]+)", file.read_text()):
                assert verb in commands, (file, verb)


def test_every_endpoint_is_documented_and_every_documented_one_exists() -> None:
    with Lane(LaneOptions("catalog")) as lane:
        schema = create_app(FakeStages(lane), DoorOptions()).openapi()
    there = {f"{method.upper()} {path}" for path, methods in schema["paths"].items() for method in methods}
    documented = re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", HTTP, re.MULTILINE)
    assert sorted(documented) == sorted(there)


def test_every_address_in_the_pages_exists() -> None:
    with Lane(LaneOptions("catalog")) as lane:
        paths = [*create_app(FakeStages(lane), DoorOptions()).openapi()["paths"], "/openapi.json", "/v1", "/"]
    shapes = [re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in paths]
    for page in PAGES:
        for path in re.findall(
            r"(?:GET|POST|DELETE|PUT) (/[\w/{}.-]*)|127\.0\.0\.1:80[0-9]{2}(/[\w/$.-]*)", page.read_text()
        ):
            named = path[0] or path[1]
            assert any(shape.fullmatch(named) for shape in shapes), (page, named)


def test_every_figure_is_documented_and_every_documented_one_is_exported() -> None:
    families = list(cast("Iterator[Metric]", Metrics().registry.collect()))
    exported = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    documented = set(re.findall(r"^\| `(fleetfoot_\w+)` \|", HTTP, re.MULTILINE))
    files = [ROOT / "assembly.py", *(each for room in ("pipeline", "api") for each in (ROOT / room).glob("*.py"))]
    code = "".join(file.read_text() for file in files)
    kept = re.findall(r'\b(Figure|Tally)\(\s*"(\w+)"', code)
    exported |= {f"fleetfoot_{name}" + ("_total" if kind == "Tally" else "") for kind, name in kept}
    assert exported == documented
    for page in PAGES:
        named = set(re.findall(r"`(fleetfoot_[a-z_]+)", page.read_text()))
        assert named <= documented, page


def test_every_error_code_is_documented_with_its_status() -> None:
    documented = {code: int(status) for code, status in re.findall(r"^\| `(\w+)` \| (\d{3}) \|", HTTP, re.MULTILINE)}
    raised = {kind.code: status for kind, status in STATUS.items()}
    ours = {FleetfootError.code: 500, "method_not_allowed": 405, TOO_SLOW: 408}
    assert documented == raised | ours


def test_every_reason_for_giving_up_is_documented() -> None:
    reasons: set[str] = set()
    for room in ("retrieve", "rerank", "context", "api"):
        for file in (ROOT / room).rglob("*.py"):
            reasons |= set(re.findall(r"Degraded\((?:Stage\.\w+|stage), \"(\w+)\"", file.read_text()))
    assert reasons
    for reason in reasons:
        assert f"| `{reason}` |" in HTTP, reason


def test_every_field_of_an_answer_is_documented() -> None:
    for model in (
        ChunkingOut,
        ExplainedOut,
        ExplanationOut,
        PieceOut,
        PlaceOut,
        StandingOut,
        ExtensionOut,
        ResultOut,
        JobOut,
        LapOut,
        TimingsOut,
        PassageOut,
    ):
        for field in model.model_fields:
            assert re.search(rf"[`\"]{field}[`\"]", HTTP), (model, field)


def test_every_field_of_the_log_is_documented() -> None:
    visit = Visit("id", 0.0, code="x", detail="x", query_hash="x", generation="x", profile="x", left=True, promised=1.0)
    visit.first_event = visit.first_token = 1.0
    for field in log_line(visit, "/"):
        assert f"| `{field}` |" in OPERATIONS, field


def test_the_defaults_of_a_retrieval_are_those_of_the_profile() -> None:
    profile = Profile()
    given: dict[str, object] = {"deadline_ms": profile.deadline * 1000}
    given |= {"top_k": profile.pack.top_k, "token_budget": profile.pack.token_budget}
    given |= {"search.candidates": profile.search.candidates, "search.fusion": profile.search.fusion}
    given |= {"search.rrf_k": profile.search.rrf_k, "search.dense_weight": profile.search.dense_weight}
    given |= {"rerank.depth": profile.rerank.depth, "pack.similarity": profile.pack.similarity}
    given |= {"pack.join_neighbours": profile.pack.join_neighbours, "pack.expand": profile.pack.expand}
    for field, value in given.items():
        (default,) = re.findall(rf"^\| `{re.escape(field)}` \| `?([\w.]+)`? \|", HTTP, re.MULTILINE)
        shown = f"{value:g}" if isinstance(value, float) else json.dumps(value)
        assert default == shown.strip('"'), field


@pytest.mark.parametrize("block", CURL, ids=range(len(CURL)))
async def test_every_request_of_the_page_is_understood(block: str) -> None:
    """Sent as curl would, to the door over fakes; the one that shows an error gets it."""
    async with Running() as service:
        service.stages.catalog.names.append("mine")
        job = service.stages.catalog.accept("default", "handbook", [])
        method, url, options = request_of(block.replace("$JOB", job.id).replace("$DOCUMENT", "d0"))
        service.stages.catalog.moves(job.id, job.state.__class__.DONE)
        async with service.client.request(method, url.replace(HERE, service.url), **options) as response:
            said = await response.text()
            assert response.status == (
                404
                if "handbok" in block
                else 202
                if method != "GET" and re.search(r"/documents(?!/known)|/(refresh|retry|chunking)$", url)
                else 200
            ), said


def request_of(block: str) -> tuple[str, str, dict[str, Any]]:
    """A curl command as a request: method, address, and what aiohttp is given. Knows the options that the page uses."""
    words = iter(shlex.split(block.replace("\\\n", " "))[1:])
    method, url, headers, data = "", "", dict[str, str](), None
    form: aiohttp.FormData | None = None
    for word in words:
        match word:
            case "-s" | "-sN" | "-si":
                pass
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d" | "--data-binary":
                data = next(words)
            case "-F":
                form = form or aiohttp.FormData()
                name, _, value = next(words).partition("=")
                if value.startswith("@"):
                    form.add_field(name, b"# Leave\n", filename=value[1:])
                else:
                    form.add_field(name, value)
            case _:
                assert word.startswith(HERE), word
                url = word
    body = form or data
    return method or ("POST" if body is not None else "GET"), url, {"headers": headers, "data": body}
