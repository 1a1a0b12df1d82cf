"""Two lists become one: by ranks or by scaled scores, with ties that always fall the same way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.passages import Hit, Leg
from pipeline.profile import Fusion, Search
from retrieve.fusion import Found, fuse

LEXICAL = Found(Leg.LEXICAL, [7, 3, 9], [12.0, 8.0, 4.0])
DENSE = Found(Leg.DENSE, [3, 5, 7], [0.9, 0.8, 0.5])
keys = st.lists(st.integers(0, 40), unique=True, max_size=20)


def found(leg: Leg, ranked: list[int]) -> Found:
    return Found(leg, ranked, [float(len(ranked) - rank) for rank in range(len(ranked))])


def test_reciprocal_ranks_are_added_up() -> None:
    fused = {item.key: item.score for item in fuse([LEXICAL, DENSE], Search())}
    assert fused == pytest.approx({7: 1 / 61 + 1 / 63, 3: 1 / 62 + 1 / 61, 5: 1 / 62, 9: 1 / 63})


def test_every_candidate_says_where_each_leg_placed_it() -> None:
    fused = {item.key: item.hits for item in fuse([LEXICAL, DENSE], Search())}
    assert fused[3] == (Hit(Leg.LEXICAL, 2, 8.0), Hit(Leg.DENSE, 1, 0.9))
    assert fused[9] == (Hit(Leg.LEXICAL, 3, 4.0),)


def test_scaled_scores_are_weighted() -> None:
    search = Search(fusion=Fusion.MIN_MAX, dense_weight=0.5)
    fused = {item.key: item.score for item in fuse([LEXICAL, DENSE], search)}
    assert fused == pytest.approx({7: 1.0 + 0.0, 3: 0.5 + 1.0, 9: 0.0, 5: 0.75})


@pytest.mark.parametrize("fusion", list(Fusion))
@pytest.mark.parametrize(("weight", "first"), [(0.0, 7), (1.0, 3)])
def test_all_the_weight_on_one_leg_gives_its_order(fusion: Fusion, weight: float, first: int) -> None:
    assert fuse([LEXICAL, DENSE], Search(fusion=fusion, dense_weight=weight))[0].key == first


@pytest.mark.parametrize("fusion", list(Fusion))
@given(keys, keys)
def test_each_key_comes_once_best_first_and_equal_scores_by_key(fusion: Fusion, a: list[int], b: list[int]) -> None:
    fused = fuse([found(Leg.LEXICAL, a), found(Leg.DENSE, b)], Search(fusion=fusion))
    assert sorted(item.key for item in fused) == sorted({*a, *b})
    places = [(-item.score, item.key) for item in fused]
    assert places == sorted(places)


@pytest.mark.parametrize("fusion", list(Fusion))
@given(keys)
def test_one_leg_alone_keeps_its_order(fusion: Fusion, ranked: list[int]) -> None:
    for leg in Leg:
        assert [item.key for item in fuse([found(leg, ranked)], Search(fusion=fusion, dense_weight=0.0))] == ranked


@given(keys, keys)
def test_the_order_of_the_legs_does_not_matter(a: list[int], b: list[int]) -> None:
    one, other = found(Leg.LEXICAL, a), found(Leg.DENSE, b)
    assert [item.key for item in fuse([one, other], Search())] == [item.key for item in fuse([other, one], Search())]


def test_equal_scores_are_scaled_to_one() -> None:
    fused = fuse([Found(Leg.DENSE, [4, 2], [0.5, 0.5])], Search(fusion=Fusion.MIN_MAX))
    assert [(item.key, item.score) for item in fused] == [(2, 1.0), (4, 1.0)]


def test_nothing_found_is_nothing_fused() -> None:
    assert fuse([Found(Leg.DENSE, [], []), Found(Leg.LEXICAL, [], [])], Search()) == ()
