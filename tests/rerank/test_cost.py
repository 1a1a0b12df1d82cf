"""The cost model knows shapes, leans to the careful side, forgets hiccups and never locks a reranker out for good."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.cost import CostModel, Learned
from rerank.shapes import Shape

# Milliseconds of a run on two layers of 128 and one thread, by length, for 1, 2, 4 and 8 pairs (see `rerank/cost.py`).
MEASURED = {
    32: (1.10, 1.34, 2.14, 4.37),
    64: (1.46, 2.36, 4.58, 8.91),
    128: (2.73, 5.01, 9.81, 19.83),
    192: (4.09, 7.85, 15.20, 33.27),
    256: (6.02, 11.59, 22.98, 48.93),
}
RUNS = {
    Shape(rows, length): ms / 1000
    for length, row in MEASURED.items()
    for rows, ms in zip((1, 2, 4, 8), row, strict=True)
}
PAIR = Shape(1, 128)


def taught(pace: float = 1.0, rounds: int = 3, cost: CostModel | None = None) -> CostModel:
    cost = cost or CostModel()
    for _ in range(rounds):
        for shape, seconds in RUNS.items():
            cost.learn(shape, pace * seconds)
    return cost


def test_nothing_is_known_before_the_first_run() -> None:
    assert not CostModel().known
    assert CostModel().careful(PAIR) == 0.0


def test_one_run_tells_a_rate_per_token() -> None:
    cost = CostModel()
    cost.learn(PAIR, 0.003)
    assert cost.expected(Shape(2, 128)) == pytest.approx(0.006)


@pytest.mark.parametrize("shape", RUNS, ids=str)
def test_every_shape_of_a_real_model_is_known_within_a_fifth(shape: Shape) -> None:
    assert taught().expected(shape) == pytest.approx(RUNS[shape], rel=0.2)


def test_a_shape_that_was_never_run_is_known_too() -> None:
    assert taught().expected(Shape(1, 160)) == pytest.approx(0.0034, rel=0.1)


def test_an_unsteady_model_is_estimated_on_the_careful_side() -> None:
    draw = random.Random(20261)
    cost = taught()
    kept = []
    for _ in range(400):
        seconds = RUNS[PAIR] * draw.uniform(0.6, 1.4)
        kept.append(seconds <= cost.careful(PAIR))
        cost.learn(PAIR, seconds)
    assert 0.65 < sum(kept[100:]) / 300 < 0.95
    assert cost.expected(PAIR) == pytest.approx(RUNS[PAIR], rel=0.25)


def test_one_hiccup_of_ten_seconds_does_not_shut_the_door() -> None:
    cost = taught()
    before = cost.expected(PAIR)
    cost.learn(PAIR, 10.0)
    assert cost.expected(PAIR) < 2 * before
    taught(cost=cost, rounds=10)
    assert cost.careful(PAIR) < 1.3 * before


def test_a_slower_machine_is_learned_within_a_tenth_of_a_second_or_so() -> None:
    cost, spent = taught(), 0.0
    while cost.expected(PAIR) < 1.8 * RUNS[PAIR]:
        cost.learn(PAIR, 2 * RUNS[PAIR])
        spent += 2 * RUNS[PAIR]
    assert spent < 0.3


def test_a_slow_while_does_not_change_what_shapes_cost_beside_each_other() -> None:
    cost = taught()
    before = cost.learned.parts
    taught(3.0, rounds=20, cost=cost)
    assert cost.learned.parts == pytest.approx(before, rel=0.3)
    assert cost.expected(PAIR) == pytest.approx(3 * RUNS[PAIR], rel=0.2)


def test_being_refused_leads_back_to_the_best_pace_known() -> None:
    cost = taught()
    before = cost.expected(PAIR)
    for _ in range(60):
        cost.learn(PAIR, 40 * RUNS[PAIR])
    assert cost.expected(PAIR) > 20 * before
    for _ in range(400):
        cost.refused()
    assert cost.careful(PAIR) <= 1.1 * before


def test_what_was_learned_before_is_known_at_once_and_corrected_by_new_runs() -> None:
    cost = CostModel(Learned((0.0, 1e-4, 0.0), 0.1, 500))
    assert cost.known
    assert cost.expected(PAIR) == pytest.approx(128e-4)
    taught(cost=cost, rounds=20)
    assert cost.expected(PAIR) == pytest.approx(RUNS[PAIR], rel=0.2)


@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.integers(1, 512), st.floats(0, 100, allow_nan=False)), min_size=1, max_size=40
    )
)
def test_no_history_makes_a_run_cost_less_than_nothing(history: list[tuple[int, int, float]]) -> None:
    cost = CostModel()
    for rows, length, seconds in history:
        cost.learn(Shape(rows, length), seconds)
    assert all(0 <= cost.expected(shape) <= cost.careful(shape) < float("inf") for shape in RUNS)
    assert min(cost.learned.parts) >= 0
