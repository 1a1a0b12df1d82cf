"""The cost model leans to the careful side, forgets hiccups and never locks a reranker out for good."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank.batching import how_many_fit, padded, runs
from rerank.cost import CostModel

steady = settings(deadline=None, derandomize=True)
LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=16)


def taught(rate: float, times: int = 40) -> CostModel:
    cost = CostModel()
    for _ in range(times):
        cost.learn(1000, 1000 * rate)
    return cost


def test_nothing_is_known_before_the_first_run() -> None:
    assert not CostModel().known
    assert CostModel().careful(1000) == 0.0


def test_a_steady_model_is_estimated_as_it_is() -> None:
    assert taught(2e-5).careful(500) == pytest.approx(0.01)


def test_an_unsteady_model_is_estimated_on_the_careful_side() -> None:
    cost = CostModel()
    for turn in range(200):
        cost.learn(1000, 1000 * (1e-5 if turn % 2 else 3e-5))
    assert 2e-5 < cost.careful(1) < 5e-5
    assert cost.expected(1) == pytest.approx(2e-5, rel=0.4)


def test_one_hiccup_of_ten_seconds_does_not_shut_the_door() -> None:
    cost = taught(2e-5)
    cost.learn(1000, 10.0)
    assert cost.careful(1) < 2e-5 * 5
    for _ in range(40):
        cost.learn(1000, 1000 * 2e-5)
    assert cost.careful(1) < 2e-5 * 1.1


def test_a_slower_machine_is_learned() -> None:
    cost = taught(2e-5)
    for _ in range(60):
        cost.learn(1000, 1000 * 8e-5)
    assert cost.careful(1) >= 8e-5 * 0.95


def test_being_refused_leads_back_to_the_best_rate_known() -> None:
    cost = taught(2e-5)
    for _ in range(60):
        cost.learn(1000, 1000 * 8e-4)
    for _ in range(400):
        cost.refused()
    assert cost.careful(1) == pytest.approx(2e-5, rel=0.05)


@steady
@given(LENGTHS, st.integers(1, 500))
def test_runs_hold_every_pair_once_within_their_tokens(lengths: list[int], run_tokens: int) -> None:
    grouped = runs(lengths, run_tokens)
    assert sorted(place for run in grouped for place in run) == list(range(len(lengths)))
    assert all(len(run) == 1 or padded(lengths, run) <= run_tokens for run in grouped)


@steady
@given(LENGTHS, st.integers(1, 500), st.integers(0, 4000))
def test_what_is_said_to_fit_does_fit(lengths: list[int], run_tokens: int, left: int) -> None:
    count = how_many_fit(lengths, run_tokens, left, float)

    def cost(first: int) -> int:
        return sum(padded(lengths[:first], run) for run in runs(lengths[:first], run_tokens))

    assert cost(count) <= left
    assert count == len(lengths) or all(cost(more) > left for more in range(count + 1, len(lengths) + 1))
