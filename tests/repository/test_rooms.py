"""What import-linter cannot see: the one top-level module, and that every folder reaches the wheel."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAGES = {"ingest", "retrieve", "rerank", "context", "generate"}
DOORS = {"api", "workers", "evaluation"}
ROOMS = STAGES | DOORS | {"pipeline", "fleetfoot"}


def imported_rooms(file: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            rooms.add(node.module.split(".")[0])
    return rooms & (ROOMS | {"assembly"})


def test_the_assembly_stands_on_stages_and_knows_no_door() -> None:
    assert imported_rooms(ROOT / "assembly.py") <= STAGES | {"pipeline"}


def test_no_stage_knows_the_assembly() -> None:
    for room in STAGES | {"pipeline"}:
        for file in (ROOT / room).rglob("*.py"):
            assert "assembly" not in imported_rooms(file), file


def test_every_package_reaches_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = set(project["packages"])
    for room in ROOMS:
        for init in (ROOT / room).rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(ROOT).parts)
            assert (name if room == "fleetfoot" else f"fleetfoot.app.{name}") in listed, name
    assert "fleetfoot.app.benchmarks.load" in listed, "`fleetfoot bench` is for those without a checkout too"


def test_a_package_says_in_one_sentence_what_it_is_and_imports_nothing() -> None:
    for room in ROOMS:
        for init in (ROOT / room).rglob("__init__.py"):
            body = ast.parse(init.read_text()).body
            assert len(body) == 1, init
            assert isinstance(body[0], ast.Expr), init
