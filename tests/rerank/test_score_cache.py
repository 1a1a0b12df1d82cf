"""A score is found again for the same model, the same query and the same text, and for nothing else."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clock import CacheUse, Lap, Stage
from pipeline.ports import SecondLevel
from pipeline.second_level import GuardedLevel
from rerank.score_cache import MOST, ScoreCache
from tests.fakes_cache import FakeLevel, flipped

SCORES = {"aa": 1.5, "bb": -2.25, "cc": 0.1}


def lap() -> Lap:
    return Lap(Stage.RERANK, 0.0, inf)


async def test_what_was_scored_is_known_by_its_place_among_what_is_asked_for() -> None:
    cache = ScoreCache.open("model")
    cache.keep("tram", SCORES)
    timed = lap()
    assert await cache.look_up("tram", ["cc", "dd", "aa"], timed) == {0: 0.1, 2: 1.5}
    assert timed.caches == {"rerank_scores": CacheUse(2, 3)}
    assert (cache.counts.hits, cache.counts.computed) == (2, 3)


@pytest.mark.parametrize(
    ("model", "text", "passage"), [("other", "tram", "aa"), ("m", "Tram", "aa"), ("m", "tram", "a")]
)
async def test_another_model_query_or_text_has_no_score(model: str, text: str, passage: str) -> None:
    level = GuardedLevel(FakeLevel())
    ScoreCache.open("m", second=level).keep("tram", SCORES)
    assert await ScoreCache.open(model, second=level).look_up(text, [passage], lap()) == {}


async def test_what_is_scored_later_joins_what_is_known_and_a_new_score_replaces_the_old() -> None:
    cache = ScoreCache.open("model")
    cache.keep("tram", SCORES)
    cache.keep("tram", {"bb": 7.0, "dd": 8.0})
    assert await cache.look_up("tram", ["aa", "bb", "cc", "dd"], lap()) == {0: 1.5, 1: 7.0, 2: 0.1, 3: 8.0}
    assert cache.entries == 1


async def test_of_one_query_no_more_is_kept_than_the_latest() -> None:
    cache = ScoreCache.open("model")
    for number in range(0, 2 * MOST, 8):
        cache.keep("tram", {str(number + each): 1.0 for each in range(8)})
    assert await cache.look_up("tram", [str(MOST - 1), str(MOST), str(2 * MOST - 1)], lap()) == {1: 1.0, 2: 1.0}


async def test_a_score_that_is_not_a_number_is_not_kept() -> None:
    cache = ScoreCache.open("model")
    cache.keep("tram", {"aa": nan, "bb": inf, "cc": 1.0})
    assert await cache.look_up("tram", ["aa", "bb", "cc"], lap()) == {2: 1.0}


async def test_an_instance_has_the_scores_of_another() -> None:
    level = GuardedLevel(FakeLevel())
    ScoreCache.open("model", second=level).keep("tram", SCORES)
    other = ScoreCache.open("model", second=level)
    for _ in range(2):
        assert await other.look_up("tram", ["aa", "dd"], lap()) == {0: 1.5}
    assert (other.counts.shared_hits, other.counts.hits) == (1, 1)


@pytest.mark.parametrize("harm", [flipped, lambda value: value[:-1], lambda _: b"", lambda _: bytes(1000)])
async def test_garbage_from_the_second_level_is_no_score(harm: object) -> None:
    behind = FakeLevel()
    level: SecondLevel = GuardedLevel(behind)
    ScoreCache.open("model", second=level).keep("tram", SCORES)
    behind.harm = harm  # type: ignore[assignment]  # whatever a test does to it
    assert await ScoreCache.open("model", second=level).look_up("tram", list(SCORES), lap()) == {}


@given(st.lists(st.tuples(st.sampled_from("pq"), st.dictionaries(st.sampled_from("abc"), st.floats(-9, 9)))))
async def test_it_knows_what_a_table_would_know(kept: list[tuple[str, dict[str, float]]]) -> None:
    cache, table = ScoreCache.open("model"), dict[tuple[str, str], float]()
    for text, scores in kept:
        cache.keep(text, scores)
        table.update({(text, passage): score for passage, score in scores.items()})
    for text in "pq":
        found = await cache.look_up(text, list("abc"), lap())
        assert found == {place: table[text, name] for place, name in enumerate("abc") if (text, name) in table}
