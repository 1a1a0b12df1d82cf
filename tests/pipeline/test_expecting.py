"""What work takes is learned quickly, forgotten quickly, and not spoilt by one hiccup."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.expecting import BatchCost, Typical


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_change_of_pace_is_learned_within_a_hundred_pieces_of_work(before: float, after: float) -> None:
    typical = Typical()
    for took in [before] * 50 + [after] * 100:
        typical.learn(took)
    assert typical.seconds == pytest.approx(after, rel=0.1)


@given(st.floats(0.001, 1.0), st.floats(1.0, 1000.0))
def test_one_hiccup_hardly_counts(usual: float, hiccup: float) -> None:
    typical = Typical()
    for took in [usual] * 30 + [usual * hiccup]:
        typical.learn(took)
    assert typical.seconds <= usual * 1.3 + 1e-9


def test_a_first_piece_of_work_that_took_very_long_is_soon_forgotten() -> None:
    typical, cost = Typical(), BatchCost()
    for took in [60.0] + [0.01] * 80:
        typical.learn(took)
        cost.learn(10, took)
    assert typical.seconds < 0.03
    assert cost.careful(10) < 2


def test_the_part_for_a_run_is_told_from_the_part_for_its_units() -> None:
    cost, random_units = BatchCost(), random.Random(3)
    for _ in range(200):
        units = random_units.randrange(1, 64)
        cost.learn(units, (0.005 + 0.001 * units) * random_units.uniform(0.95, 1.05))
    assert cost.run == pytest.approx(0.005, rel=0.3)
    assert cost.each == pytest.approx(0.001, rel=0.1)
    assert cost.expected(1000) == pytest.approx(1.005, rel=0.1)


def test_batches_of_one_size_are_expected_to_take_what_they_took() -> None:
    cost = BatchCost()
    for _ in range(20):
        cost.learn(8, 0.04)
    assert cost.expected(8) == pytest.approx(0.04)
    assert cost.careful(8) == pytest.approx(0.04)


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 10)), max_size=40), st.integers(1, 500))
def test_no_batch_is_expected_to_take_less_than_nothing(seen: list[tuple[int, float]], units: int) -> None:
    cost = BatchCost()
    for each in seen:
        cost.learn(*each)
    assert 0 <= cost.expected(units) <= cost.careful(units) < 10_000
