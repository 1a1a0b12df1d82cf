"""Stopping after any run is a valid ranking, whatever the lengths, the costs and the time there is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.anytime import AnytimeOptions, Asked, Plan
from rerank.merging import merged
from rerank.passage_tokens import PassageTokens
from tests.fakes_scorer import FakeScorer, HandClock
from tests.fakes_shelf import candidates_on, shelf_of

MANY = shelf_of([2, 30, 4, 55, 7, 3, 21, 9, 60, 2, 14, 5] * 4)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, HandClock, int]:
    """A plan over candidates in any order, with any costs and any time."""
    clock = HandClock()
    scorer = FakeScorer({}, clock, per_token=draw(st.floats(0, 1e-3)), per_run=draw(st.floats(0, 1e-2)))
    keys = draw(st.lists(st.integers(0, 47), min_size=1, max_size=30, unique=True))
    options = AnytimeOptions(draw(st.integers(1, 16)), draw(st.integers(1, 600)), least_passage=2)
    asked = Asked("w x y", MANY, dict(enumerate(keys)), draw(st.floats(-0.1, 2)))
    return Plan(scorer, PassageTokens(scorer.tokenizer, scorer.token_ids), options, asked), clock, len(keys)


@given(plans(), st.integers(1, 9))
def test_stopping_after_any_run_is_a_permutation_with_strictly_falling_scores(
    drawn: tuple[Plan, HandClock, int], sharing: int
) -> None:
    plan, clock, count = drawn
    candidates = candidates_on(MANY, [plan.asked.keys[place] for place in range(count)])
    scores: dict[int, float] = {}
    scorer = plan._scorer
    while (run := plan.next(clock, sharing)) is not None:
        assert run
        assert not scores.keys() & set(run), "scored twice"
        assert len(run) == 1 or plan.shape(run).tokens <= plan._options.run_tokens
        clock.time += scorer.seconds(plan.shape(run))
        scores |= {place: float(place % 5) for place in run}
        plan.done(run)
        ranking = merged(candidates, scores)
        assert sorted(ranked.candidate.key for ranked in ranking.items) == sorted(plan.asked.keys.values())
        assert all(before.score > after.score for before, after in pairwise(ranking.items))
        assert sum(ranked.rerank_score is not None for ranked in ranking.items) == len(scores)


@given(plans())
def test_with_time_enough_everybody_is_scored(drawn: tuple[Plan, HandClock, int]) -> None:
    plan, clock, count = drawn
    clock.time = -1e9
    scored: list[int] = []
    while (run := plan.next(clock, 1)) is not None:
        scored += run
    assert sorted(scored) == list(range(count))


@given(plans(), st.integers(1, 9))
def test_no_run_is_begun_that_ends_too_late_on_a_steady_machine(
    drawn: tuple[Plan, HandClock, int], sharing: int
) -> None:
    plan, clock, _ = drawn
    while (run := plan.next(clock, sharing)) is not None:
        clock.time += plan._scorer.seconds(plan.shape(run))
        assert clock.time <= plan.asked.until * (1 + 0.01 * (plan.asked.until > 0)) + 1e-3


def test_a_run_that_was_put_back_comes_first_again() -> None:
    scorer = FakeScorer({}, per_token=0.001)
    plan = Plan(
        scorer,
        PassageTokens(scorer.tokenizer, scorer.token_ids),
        AnytimeOptions(least_passage=2),
        Asked("w x y", MANY, dict(enumerate(range(8))), 10.0),
    )
    first = plan.next(lambda: 0.0, 1)
    assert first is not None
    plan.put_back(first)
    assert plan.next(lambda: 0.0, 1) == first


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_device_has_options_of_its_own(device: str) -> None:
    assert (AnytimeOptions.on(device).run_tokens > 1000) == (device == "cuda")
