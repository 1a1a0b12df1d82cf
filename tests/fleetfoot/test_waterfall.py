"""The drawing of where the time went."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fleetfoot.client import StageTiming
from fleetfoot.waterfall import CUT, bar, kept, waterfall

times = st.floats(0, 1e6)
timings = st.builds(StageTiming, st.just("dense"), times, times, times, st.none() | times, st.booleans())


def drawn(*rows: StageTiming, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(waterfall(rows, console.width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@given(st.lists(timings, min_size=1, max_size=8), st.integers(8, 60))
def test_no_bar_is_longer_than_its_place_and_every_stage_leaves_a_mark(rows: list[StageTiming], width: int) -> None:
    whole = max(row.started_ms + row.waited_ms + row.worked_ms for row in rows) or 1.0
    for row in rows:
        text = bar(row, whole, width).plain
        assert len(text) <= width
        assert text.strip()


@given(timings)
def test_a_stage_that_was_cut_off_is_marked_without_colour_too(row: StageTiming) -> None:
    whole = row.started_ms + row.waited_ms + row.worked_ms or 1.0
    assert bar(row, whole, 36).plain.endswith(CUT) == row.cut


def test_stages_stand_in_the_order_in_which_they_began() -> None:
    lines = drawn(
        StageTiming("dense", 30, 0, 10, 500, False),
        StageTiming("encode", 0, 1, 29, 500, False),
        StageTiming("rerank", 40, 0, 60, 60, True),
        width=120,
    )
    assert [line.split()[0] for line in lines] == ["ms", "encode", "dense", "rerank"]
    assert "✂ cut off" in lines[0]
    assert lines[3].rstrip().endswith(CUT)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_the_terminal(width: int) -> None:
    lines = drawn(StageTiming("first_token", 0, 1, 12_323.4, 119_946, False), width=width)
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)
    assert "█" in lines[1]


def test_what_came_from_caches_is_told_where_there_was_something() -> None:
    timings = {"first_token_ms": None, "deadline_ms": 200.0, "total_ms": 3.2}
    assert kept(timings) == "all after 3 of 200 ms"
    nothing = {"vectors": {"hits": 0, "asked": 1}}
    assert kept({**timings, "caches": nothing}) == "all after 3 of 200 ms"
    some = {**nothing, "rerank_scores": {"hits": 9, "asked": 20}, "retrievals": {"hits": 1, "asked": 1}}
    assert kept({**timings, "caches": some}) == (
        "all after 3 of 200 ms; from caches 9 of 20 rerank scores, 1 of 1 retrievals"
    )
