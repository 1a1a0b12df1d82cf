"""Grouping and sizing run beside the reranker, and give way when there is no time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from context.duplicates import DuplicateGrouper
from context.sizes import TokenSizer
from pipeline.clock import Budget, Clock, Stage
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Degraded
from pipeline.profile import Pack
from tests.fakes_shelf import FakeShelf, asked, candidates_on, make_passage, shelf_of


@pytest.fixture
def lane() -> Iterator[Lane]:
    with Lane(LaneOptions("duplicates")) as lane:
        yield lane


def near() -> FakeShelf:
    """Passage 2 says nearly what 0 says, 3 exactly what 1 says."""
    texts = ["alpha", "beta", "alpha again", "beta"]
    return FakeShelf(
        [make_passage(f"d{number}", 0, text) for number, text in enumerate(texts)],
        [[1.0, 0.0], [0.0, 1.0], [0.99, 0.1], [0.0, 1.0]],
    )


@pytest.mark.parametrize("in_place", [0, 256])
async def test_near_and_exact_duplicates_share_a_group_named_by_the_best(lane: Lane, in_place: int) -> None:
    clock = Clock(Budget())
    groups = await DuplicateGrouper(lane, in_place=in_place).group(asked(), candidates_on(near(), [2, 3, 1, 0]), clock)
    assert groups.of == {2: 2, 3: 3, 1: 3, 0: 2}
    assert [lap.stage for lap in clock.timings] == [Stage.DUPLICATES]


async def test_a_similarity_of_1_finds_exact_ones_only(lane: Lane) -> None:
    query = asked(pack=Pack(similarity=1.0))
    groups = await DuplicateGrouper(lane).group(query, candidates_on(near(), [0, 1, 2, 3]), Clock(Budget()))
    assert groups.of == {0: 0, 1: 1, 2: 2, 3: 1}


async def test_a_similarity_above_1_asks_for_nothing(lane: Lane) -> None:
    clock = Clock(Budget())
    query = asked(pack=Pack(similarity=1.5))
    groups = await DuplicateGrouper(lane).group(query, candidates_on(near(), [0, 1, 2, 3]), clock)
    assert (groups.of, groups.degraded, clock.timings) == ({}, (), ())


async def test_no_time_for_grouping_is_told_with_what_is_given_up(lane: Lane) -> None:
    groups = await DuplicateGrouper(lane).group(asked(), candidates_on(near(), [0, 1]), Clock(Budget(total=0.0)))
    assert groups.of == {}
    assert groups.degraded == (Degraded(Stage.DUPLICATES, "out_of_time", "only exact duplicates were removed"),)


async def test_a_full_lane_is_told() -> None:
    with Lane(LaneOptions("duplicates", line=0)) as full:
        groups = await DuplicateGrouper(full, in_place=1).group(asked(), candidates_on(near(), [0, 1]), Clock(Budget()))
        assert groups.degraded[0].reason == "overloaded"
        groups = await DuplicateGrouper(full).group(asked(), candidates_on(near(), [0, 1]), Clock(Budget()))
    assert groups.degraded == (), "a few are compared without it"


async def test_sizes_are_looked_up_for_all_candidates() -> None:
    clock = Clock(Budget())
    sizes = await TokenSizer().size(asked(), candidates_on(shelf_of([5, 9]), [1, 0]), clock)
    assert sizes.tokens == {1: 9, 0: 5}
    assert [lap.stage for lap in clock.timings] == [Stage.SIZES]


async def test_without_time_counting_is_left_to_packing() -> None:
    sizes = await TokenSizer().size(asked(), candidates_on(shelf_of([5]), [0]), Clock(Budget(total=0.0)))
    assert (sizes.tokens, sizes.degraded[0].stage) == ({}, Stage.SIZES)
