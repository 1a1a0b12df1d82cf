"""`fleetfoot search` and `fleetfoot ask` over a real door."""

from __future__ import annotations

import json

import pytest

from pipeline.errors import UpstreamFailed
from tests.fakes_api import FakeGenerator, Service
from tests.fleetfoot.conftest import fleetfoot, served


def test_passages_come_with_their_place_source_and_legs(service: Service) -> None:
    done = fleetfoot("search", "leave", "-c", "handbook", "-k", "2", url=service.url)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1 leave")
    assert "Time › Leave (p. 3)" in lines[0]
    assert "lexical #1, dense #3" in lines[0]
    assert lines[1].rstrip() == "   Everybody has 28 days of leave."
    assert lines[2].startswith("2 notice")
    assert "░ waited  █ worked" in done.stdout
    assert "shoes" not in done.stdout


def test_an_answer_comes_with_its_sources_and_where_the_time_went(service: Service) -> None:
    done = fleetfoot("ask", "How many days?", "-c", "handbook", url=service.url)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("You have 28 days [1].\n  [1] leave")
    assert "first token after" in done.stdout


def test_how_many_passages_an_answer_may_rest_on_can_be_said(service: Service) -> None:
    done = fleetfoot("ask", "How many days?", "-c", "handbook", "-k", "1", url=service.url)
    assert done.exit_code == 0, done.stderr
    (query,) = service.stages.retriever.queries  # type: ignore[union-attr]  # the fake
    assert query.profile.pack.top_k == 1


@pytest.mark.parametrize(
    ("verb", "keys"),
    [("search", {"results"}), ("ask", {"answer", "passages", "citations", "timings", "degraded"})],
)
def test_for_programs_there_is_one_object_and_nothing_else(service: Service, verb: str, keys: set[str]) -> None:
    done = fleetfoot(verb, "leave", "-c", "handbook", "--json", url=service.url)
    assert done.exit_code == 0
    assert keys <= set(json.loads(done.stdout))
    assert done.stderr == ""


@pytest.mark.parametrize("verb", ["search", "ask"])
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_an_unknown_collection_is_told_with_those_that_are_known(
    service: Service, verb: str, options: tuple[str, ...]
) -> None:
    done = fleetfoot(verb, "leave", "-c", "handbok", *options, url=service.url)
    assert done.exit_code == 1
    assert done.stdout.strip() == ""
    assert done.stderr.count("\n") == 1
    assert "'handbok'" in done.stderr
    assert "Known: handbook," in done.stderr


def test_an_answer_that_breaks_off_ends_with_the_reason() -> None:
    generator = FakeGenerator("You have", " more")
    generator.late_error = UpstreamFailed("The model server broke off [early].")
    with served(generator=generator) as service:
        done = fleetfoot("ask", "How many days?", "-c", "handbook", url=service.url)
    assert done.exit_code == 1
    assert done.stdout.startswith("You have")
    assert "broke off [early]." in done.stderr


def test_brackets_in_an_answer_are_words_and_no_markup() -> None:
    with served(generator=FakeGenerator("see [bold]A[/bold]", " and [/x] [2]")) as service:
        done = fleetfoot("ask", "How many days?", "-c", "handbook", url=service.url)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("see [bold]A[/bold] and [/x] [2]\n")
