"""`fleetfoot collections` over a real door."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner, Result

from fleetfoot.command import app
from fleetfoot.generations import size
from tests.fakes_api import Running, Service


async def ran(service: Service, *words: str) -> Result:
    """The command in a thread, since it has an event loop of its own."""
    given = ["collections", *words, "--url", service.url]
    return await asyncio.to_thread(CliRunner().invoke, app, given, env={"COLUMNS": "200"})


async def test_collections_are_listed_with_what_they_hold() -> None:
    async with Running() as service:
        done = await ran(service, "list")
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()] == ["collection", "handbook", "laws"]


async def test_generations_are_shown_with_what_is_to_be_known_of_them() -> None:
    async with Running() as service:
        done = await ran(service, "show", "handbook")
        lines = done.output.splitlines()
        assert "handbook@7" in lines[1]
        assert "serves" in lines[1]
        assert "25%" in lines[1]
        assert "handbook@6" in lines[2]
        assert "serves" not in lines[2]
        found = json.loads((await ran(service, "show", "handbook", "--json")).output)
        assert [each["number"] for each in found["data"]] == [7, 6]


async def test_verifying_looks_at_all_that_is_kept_and_tells_damage_by_its_exit_status() -> None:
    async with Running() as service:
        done = await ran(service, "verify", "handbook")
        assert (done.exit_code, done.output) == (0, "handbook@7  sound\nhandbook@6  sound\n")
    async with Running(damaged={6}) as service:
        done = await ran(service, "verify", "handbook")
        assert (done.exit_code, done.output.splitlines()[1]) == (4, "handbook@6  'handbook@6' is damaged.")
        assert (await ran(service, "verify", "handbook", "7")).exit_code == 0


async def test_every_deed_is_done_and_told_in_a_sentence() -> None:
    async with Running() as service:
        told = {
            ("pin", "handbook", "6"): "handbook@6 is kept",
            ("unpin", "handbook", "6"): "handbook@6 goes",
            ("rollback", "handbook", "6"): "handbook@8 serves what handbook@6 did",
            ("prune", "handbook"): "handbook@4, handbook@5 forgotten",
            ("compact", "handbook"): "handbook@7 will be compacted: 2 segments, 25% of its passages dead.",
        }
        for words, text in told.items():
            done = await ran(service, *words)
            assert (done.exit_code, text in done.output) == (0, True), done.output
        assert [deed for deed, _, _ in service.stages.keeping.done] == ["pin", "pin", "roll back", "drop", "compact"]


async def test_what_is_not_there_is_an_error_with_its_remedy() -> None:
    async with Running() as service:
        done = await ran(service, "rollback", "handbook", "3")
        assert done.exit_code == 1
        assert "There is no generation '3'. Known: 7, 6." in done.stderr


@pytest.mark.parametrize(
    ("number", "text"), [(None, "?"), (0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (25_000_000, "25 MB")]
)
def test_sizes_are_told_as_people_read_them(number: int | None, text: str) -> None:
    assert size(number) == text
