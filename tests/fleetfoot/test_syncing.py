"""`fleetfoot sync` over a real door and a real catalog: a collection follows a folder."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from fleetfoot.client import Refused, connect
from fleetfoot.folder_files import Folder
from fleetfoot.keeping_step import LONGEST_REST, LOOK_AGAIN, keep_in_step
from fleetfoot.syncing import Plan, Synced, Syncing, SyncOptions, TooManyRemovals
from ingest.catalog import Catalog, CatalogOptions
from pipeline.errors import InvalidInput, Misconfigured, Overloaded
from pipeline.jobs import NO_TERMS, Job, Terms
from pipeline.passages import Upload
from tests.fakes_api import Service
from tests.fleetfoot.conftest import fleetfoot, served
from tests.ingesting import Workshop
from tests.running_service import ROOT, clean_environment

TENANT = "default"


class WorkingCatalog(Catalog):
    """A real catalog whose promises are kept before they are told. `refusals` are told first."""

    refusals = 0

    def accept(
        self, tenant: str, collection: str, uploads: Sequence[Upload], *, kind: str = "add", terms: Terms = NO_TERMS
    ) -> Job:
        if self.refusals:
            self.refusals -= 1
            raise Overloaded("The service is full.", retry_after=0.01)
        job = super().accept(tenant, collection, uploads, kind=kind, terms=terms)
        Workshop(self).work()
        return self.job(tenant, job.id)

    def remove(self, tenant: str, collection: str, document_ids: Sequence[str], **terms: Any) -> Job:
        job = super().remove(tenant, collection, document_ids, **terms)
        Workshop(self).work()
        return self.job(tenant, job.id)

    def holds(self, collection: str) -> dict[str, str]:
        """The texts of the published documents by name."""
        found = self.documents(TENANT, collection, limit=1000, labels=frozenset({"hr"}))
        texts = {each.id: self.passages(TENANT, collection, each.id, limit=1000, labels=None) for each in found}
        return {each.name: "\n".join(passage.text for passage in texts[each.id]) for each in found}


@contextmanager
def working(folder: Path) -> Generator[tuple[Service, WorkingCatalog]]:
    options = CatalogOptions(f"sqlite:///{folder / 'catalog.db'}", folder / "generations")
    with WorkingCatalog.open(options) as catalog:
        assert isinstance(catalog, WorkingCatalog)
        with served(catalog=catalog) as service:
            yield service, catalog


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Service, WorkingCatalog]]:
    with working(tmp_path_factory.mktemp("service")) as made:
        yield made


@pytest.fixture
def home(living: tuple[Service, WorkingCatalog]) -> Generator[WorkingCatalog]:
    """The catalog, with no collection in it."""
    _, catalog = living
    for each in catalog.collections(TENANT):
        catalog.delete_collection(TENANT, each.name)
    yield catalog
    catalog.refusals = 0


@pytest.fixture
def url(living: tuple[Service, WorkingCatalog]) -> str:
    return living[0].url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "handbook").mkdir()
    return tmp_path / "handbook"


def write(folder: Path, **texts: str) -> None:
    """Files that nobody has touched for an hour."""
    for name, text in texts.items():
        put(folder / f"{name}.md", text)


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    hour_ago = time.time() - 3600 + len(text)
    os.utime(file, (hour_ago, hour_ago))


def sync(folder: Path, url: str, *options: str) -> dict[str, Any]:
    done = fleetfoot("sync", folder, "-c", "notes", "--json", *options, url=url)
    assert done.exit_code == 0, done.stderr + done.stdout
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_new_and_changed_files_are_sent_and_removed_ones_are_removed(
    home: WorkingCatalog, url: str, folder: Path
) -> None:
    write(folder, a="Old a.", b="B.", c="C.")
    assert sync(folder, url)["counts"] == {"published": 3}
    write(folder, a="New a.", d="D.")
    (folder / "b.md").unlink()
    told = sync(folder, url, "--remove-at-most", "50")
    assert (told["counts"], told["removed"], told["unchanged"]) == ({"published": 2}, ["handbook/b.md"], 1)
    assert home.holds("notes") == {"handbook/a.md": "New a.", "handbook/c.md": "C.", "handbook/d.md": "D."}
    again = sync(folder, url)
    assert (again["jobs"], again["unchanged"], again["removed"]) == ([], 3, [])


def test_an_empty_folder_does_not_empty_a_collection(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.", b="B.")
    sync(folder, url)
    for file in list(folder.iterdir()):
        file.unlink()
    write(folder, c="C.")
    stopped = fleetfoot("sync", folder, "-c", "notes", url=url)
    assert stopped.exit_code == 4
    assert "2 of the 2 documents that came from 'handbook'" in stopped.stderr
    assert "--yes" in stopped.stderr
    assert "--remove-at-most" in stopped.stderr
    assert home.holds("notes") == {"handbook/a.md": "A.", "handbook/b.md": "B."}
    sync(folder, url, "--yes")
    assert home.holds("notes") == {"handbook/c.md": "C."}


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "status", "left"), [(b"n\n", 4, 2), (b"y\n", 0, 1)], ids=["no", "yes"])
def test_whoever_sits_before_it_is_asked(
    home: WorkingCatalog, url: str, folder: Path, answer: bytes, status: int, left: int
) -> None:
    write(folder, a="A.", b="B.")
    sync(folder, url)
    (folder / "b.md").unlink()
    here, there = os.openpty()
    try:
        os.write(here, answer)
        done = subprocess.run(
            [sys.executable, "-m", "fleetfoot", "sync", str(folder), "-c", "notes", "--url", url],
            cwd=ROOT,
            env=clean_environment(),
            stdin=there,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(here)
        os.close(there)
    assert done.returncode == status, done.stderr
    assert "would be removed: handbook/b.md" in done.stderr
    assert len(home.holds("notes")) == left


def test_a_tenth_may_go_unasked_and_one_more_not(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, **{f"n{number:02}": f"Number {number}." for number in range(20)})
    sync(folder, url)
    for name in ("n00", "n01"):
        (folder / f"{name}.md").unlink()
    assert sync(folder, url)["removed"] == ["handbook/n00.md", "handbook/n01.md"]
    for name in ("n02", "n03"):
        (folder / f"{name}.md").unlink()
    assert fleetfoot("sync", folder, "-c", "notes", url=url).exit_code == 4, "2 of 18"
    assert len(home.holds("notes")) == 18


def test_folders_in_one_collection_leave_each_other_and_what_came_in_another_way(
    home: WorkingCatalog, url: str, folder: Path, tmp_path: Path
) -> None:
    write(folder, a="A.")
    write(tmp_path / "laws" / "handbook", a="Another a.")
    write(tmp_path / "by_hand" / "handbook", hand="By hand.")
    sync(folder, url)
    sync(tmp_path / "laws", url, "--as", "handbook/laws")
    assert fleetfoot("ingest", tmp_path / "by_hand", "-c", "notes", url=url).exit_code == 0
    told = sync(folder, url)
    assert told["removed"] == []
    assert home.holds("notes").keys() == {"handbook/a.md", "handbook/laws/handbook/a.md", "handbook/hand.md"}


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.", b="B.")
    sync(folder, url)
    write(folder, a="New.", c="C.")
    (folder / "b.md").unlink()
    told = sync(folder, url, "--dry-run")
    assert (told["send"], told["remove"], told["unchanged"]) == (
        ["handbook/a.md", "handbook/c.md"],
        ["handbook/b.md"],
        0,
    )
    shown = fleetfoot("sync", folder, "-c", "notes", "--dry-run", url=url)
    assert "would be removed: handbook/b.md" in shown.stdout
    assert "2 to send, 1 to remove, 0 unchanged" in shown.stdout
    assert home.holds("notes") == {"handbook/a.md": "A.", "handbook/b.md": "B."}


def test_what_is_hidden_ignored_or_outside_does_not_count(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.", draft="Draft.", kept_draft="Kept.")
    write(folder / ".git", hidden="Hidden.")
    write(folder / "build", out="Out.")
    write(folder.parent, secret="Secret.")
    (folder / ".env").write_text("Hidden.")
    (folder / ".fleetfootignore").write_text("*draft.md\n!kept_draft.md\nbuild/\n")
    (folder / "outside.md").symlink_to(folder.parent / "secret.md")
    (folder / "all").symlink_to(folder.parent)
    (folder / "hidden.md").symlink_to(folder / ".env")
    (folder / "nowhere.md").symlink_to(folder / "gone.md")
    (folder / "round.md").symlink_to(folder / "round.md")
    (folder / "inside.md").symlink_to(folder / "a.md")
    os.mkfifo(folder / "pipe.md")
    sync(folder, url)
    assert home.holds("notes").keys() == {"handbook/a.md", "handbook/inside.md", "handbook/kept_draft.md"}
    (folder / ".fleetfootignore").write_text("a.md\n")
    sync(folder, url, "--yes")
    assert "handbook/a.md" not in home.holds("notes"), "what is ignored from now on is removed"
    assert "handbook/draft.md" in home.holds("notes")


def test_labels_are_sent_and_a_change_of_them_is_a_change(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.")
    sync(folder, url, "--access", "hr")
    (document,) = home.documents(TENANT, "notes", labels=frozenset({"hr"}))
    assert document.access == ("hr",)
    assert document.metadata == {"synced_from": "handbook"}
    assert sync(folder, url, "--access", "hr")["unchanged"] == 1
    assert sync(folder, url)["counts"] == {"published": 1}
    (document,) = home.documents(TENANT, "notes", labels=frozenset())
    assert document.access == ()


def test_a_document_that_fails_is_named_and_its_last_version_stays(
    home: WorkingCatalog, url: str, folder: Path
) -> None:
    write(folder, a="A.")
    sync(folder, url)
    write(folder, a="BROKEN now.", b="B.")
    done = fleetfoot("sync", folder, "-c", "notes", url=url)
    assert done.exit_code == 3
    assert "failed handbook/a.md: 'handbook/a.md' is broken." in done.stdout
    assert home.holds("notes") == {"handbook/a.md": "A.", "handbook/b.md": "B."}


@pytest.mark.parametrize("name", ["/", "", "a/", "a\nb", "n" * 101])
def test_a_name_that_cannot_begin_documents_names_is_refused(url: str, folder: Path, name: str) -> None:
    done = fleetfoot("sync", folder, "--as", name, url=url)
    assert done.exit_code == 1
    assert "--as" in done.stderr


def test_a_folder_that_is_not_there_is_not_an_empty_one(url: str, folder: Path) -> None:
    assert fleetfoot("sync", folder / "gone", url=url).exit_code == 2
    assert fleetfoot("sync", folder, "--watch", "--dry-run", url=url).exit_code == 2


async def synced(url: str, folder: Folder, **options: Any) -> tuple[Plan, Synced]:
    async with connect(url) as client:
        syncing = Syncing(client, "notes", folder, SyncOptions("handbook", **options), Console(quiet=True))
        plan = await syncing.plan()
        syncing.check(plan)
        return plan, await syncing.carry_out(plan)


class Rests:
    """Waits for nothing, and lets a test do something meanwhile."""

    def __init__(self, *meanwhile: Any) -> None:
        self.meanwhile = list(meanwhile)
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


async def test_a_file_that_is_being_written_is_left_for_later_and_not_removed(
    home: WorkingCatalog, url: str, folder: Path
) -> None:
    write(folder, a="A.", old="Old.")
    await synced(url, Folder(folder))
    (folder / "a.md").write_text("Half")
    (folder / "new.md").write_text("Whole.")
    rests = Rests(lambda: (folder / "a.md").write_text("Half and half"))
    _, done = await synced(url, Folder(folder, rest=rests))
    assert rests.seconds == [1.0]
    assert done.listing.left == {"a.md"}
    assert home.holds("notes") == {"handbook/a.md": "A.", "handbook/new.md": "Whole.", "handbook/old.md": "Old."}
    _, done = await synced(url, Folder(folder, rest=Rests()))
    assert (done.listing.left, home.holds("notes")["handbook/a.md"]) == (set(), "Half and half")


async def test_a_clock_that_is_behind_keeps_no_file_back(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.")
    await synced(url, Folder(folder, now=lambda: 0.0, rest=Rests()))
    assert home.holds("notes") == {"handbook/a.md": "A."}


async def test_what_cannot_be_read_is_reported_and_never_removed(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.", b="B.")
    write(folder / "sub" / "deep", c="C.")
    await synced(url, Folder(folder))

    def scan(path: Path) -> Any:
        if path.name == "sub":
            raise PermissionError(13, "Permission denied")
        return os.scandir(path)

    blind = Folder(folder, scan=scan, readable=lambda file: file.name != "b.md")
    plan, done = await synced(url, blind, remove_at_most=100.0)
    assert plan.listing.unreadable == {"sub/": "Permission denied", "b.md": "permission denied"}
    assert not done.complete
    assert home.holds("notes").keys() == {"handbook/a.md", "handbook/b.md", "handbook/sub/deep/c.md"}


async def test_a_folder_that_cannot_be_read_ends_the_sync(url: str, folder: Path) -> None:
    def scan(path: Path) -> Any:
        raise OSError(116, "Stale file handle")

    with pytest.raises(InvalidInput, match="Nothing was sent or removed"):
        await synced(url, Folder(folder, scan=scan))
    (folder / ".fleetfootignore").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="Nothing was sent or removed"):
        await synced(url, Folder(folder))


async def test_names_that_no_document_can_have_are_told(home: WorkingCatalog, url: str, folder: Path) -> None:
    (folder / "a\nb.md").write_text("A.")
    (folder / os.fsdecode(b"\xff.md")).write_text("B.")
    plan, _ = await synced(url, Folder(folder, rest=Rests()))
    assert sorted(plan.listing.unreadable.values()) == ["its name has control characters", "its name is not UTF-8"]


async def test_what_somebody_else_has_removed_meanwhile_is_no_error(
    home: WorkingCatalog, url: str, folder: Path
) -> None:
    write(folder, a="A.", b="B.", c="C.")
    await synced(url, Folder(folder))
    for name in "abc":
        (folder / f"{name}.md").unlink()
    async with connect(url) as client:
        syncing = Syncing(client, "notes", Folder(folder), SyncOptions("handbook"), Console(quiet=True))
        plan = await syncing.plan()
        with pytest.raises(TooManyRemovals):
            syncing.check(plan)
        home.remove(TENANT, "notes", [id_ for name, id_ in plan.remove if name == "handbook/b.md"])
        done = await syncing.carry_out(plan)
    assert done.failed == ()
    assert home.holds("notes") == {}


async def test_a_file_that_failed_is_not_sent_again_until_it_changes(
    home: WorkingCatalog, url: str, folder: Path
) -> None:
    write(folder, bad="BROKEN.")
    async with connect(url) as client:
        syncing = Syncing(client, "notes", Folder(folder), SyncOptions("handbook"), Console(quiet=True))
        done = await syncing.carry_out(await syncing.plan())
        assert [name for name, _ in done.failed] == ["handbook/bad.md"]
        assert not (await syncing.plan()).anything
        write(folder, bad="Mended.")
        assert (await syncing.plan()).anything


def test_a_service_that_is_full_is_waited_for(home: WorkingCatalog, url: str, folder: Path) -> None:
    write(folder, a="A.")
    home.refusals = 1
    assert sync(folder, url)["counts"] == {"published": 1}


NAMES = st.sampled_from(["a.md", 'b "b".md', "d\\e.md", "sub/c.md", "sub/ü ü.md", "sub/sub/d.md", "%41;.md"])
TEXTS = st.integers(0, 3).map(lambda number: f"Text {number}.")
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, TEXTS),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("remove"), NAMES, st.just("")),
    st.tuples(st.just("sync"), st.just(""), st.just("")),
)
COLLECTION = itertools.count()


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, max_size=12))
def test_whatever_happened_to_a_folder_a_sync_makes_the_collection_equal_to_it(
    steps: list[tuple[str, str, str]], living: tuple[Service, WorkingCatalog], tmp_path: Path
) -> None:
    service, catalog = living
    number = next(COLLECTION)
    root, name = tmp_path / f"f{number}", f"c{number}"
    root.mkdir()

    async def follow() -> None:
        async with connect(service.url) as client:
            options = SyncOptions("f", remove_at_most=100.0)
            syncing = Syncing(client, name, Folder(root, now=lambda: 1e12), options, Console(quiet=True))
            for step, path, other in [*steps, ("sync", "", "")]:
                if step == "write":
                    put(root / path, other)
                elif step == "rename" and (root / path).is_file():
                    (root / other).parent.mkdir(parents=True, exist_ok=True)
                    (root / path).rename(root / other)
                elif step == "remove":
                    (root / path).unlink(missing_ok=True)
                elif step == "sync":
                    await syncing.carry_out(await syncing.plan())

    asyncio.run(follow())
    files = {f"f/{file.relative_to(root).as_posix()}": file.read_text() for file in root.rglob("*") if file.is_file()}
    known = [each.name for each in catalog.collections(TENANT)]
    assert (catalog.holds(name) if name in known else {}) == files


class Ticks:
    """A second each; in some of them something changes."""

    def __init__(self, seconds: int, *changed: int) -> None:
        self.now = 0.0
        self._seconds = seconds
        self._changed = set(changed)

    def __call__(self) -> float:
        return self.now

    async def changes(self) -> AsyncIterator[Collection[object]]:
        for second in range(self._seconds):
            self.now = float(second)
            yield {"a.md"} if second in self._changed else set()


async def turns(ticks: Ticks, *outcomes: object) -> tuple[list[float], list[str]]:
    """When there was a turn, and what was told; an outcome is what a turn returns or raises, at last False."""
    left, at, told = list(outcomes), list[float](), list[str]()

    async def turn() -> bool:
        at.append(ticks.now)
        outcome = left.pop(0) if left else False
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    await keep_in_step(turn, ticks.changes(), told.append, ticks)
    return at, told


async def test_there_is_a_turn_at_once_after_each_change_and_now_and_then() -> None:
    at, told = await turns(Ticks(400, 7, 8))
    assert at == [0, 7, 8, 8 + LOOK_AGAIN]
    assert told == []


async def test_what_was_left_is_looked_at_again_soon() -> None:
    assert (await turns(Ticks(20), True, True))[0] == [0, 1, 2]


async def test_a_service_that_is_away_is_told_of_once_and_waited_out_longer_and_longer() -> None:
    away = [Misconfigured("Nothing answers.")] * 8
    at, told = await turns(Ticks(400, 5), *away)
    assert [after - before for before, after in itertools.pairwise(at)][:8] == [1, 2, 4, 8, 16, 32, LONGEST_REST, 60]
    assert told == ["Nothing answers. Trying again until it is back.", "The service is back."]


async def test_a_service_that_is_full_says_how_long_and_one_that_refuses_ends_it() -> None:
    full = Refused(503, {"error": {"message": "Full."}}, retry_after=30.0)
    assert (await turns(Ticks(50), full))[0] == [0, 30]
    with pytest.raises(Refused):
        await turns(Ticks(50), Refused(401, {"error": {"message": "No."}}))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--poll",)], ids=["told by the system", "polling"])
def test_a_watched_folder_is_followed_until_ctrl_c(
    home: WorkingCatalog, url: str, folder: Path, options: tuple[str, ...]
) -> None:
    write(folder, **{f"n{number:02}": f"Number {number}." for number in range(10)})
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "fleetfoot", "sync", str(folder), "-c", "notes"),
            *("--watch", "--json", *options, "--url", url),
        ],
        cwd=ROOT,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    try:
        assert json.loads(process.stdout.readline())["counts"] == {"published": 10}
        (folder / "sub").mkdir()
        (folder / "sub" / "new.md").write_text("New.")
        (folder / "n03.md").unlink()
        seen = [json.loads(process.stdout.readline())]
        while not {"handbook/n03.md"} <= {name for each in seen for name in each["removed"]} or not any(
            each["counts"] for each in seen
        ):
            seen.append(json.loads(process.stdout.readline()))
        assert "handbook/sub/new.md" in home.holds("notes")
        assert "handbook/n03.md" not in home.holds("notes")
    finally:
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
