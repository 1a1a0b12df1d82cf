"""Who comes first: by priority, then deadline, then joining; and nobody waits for ever behind those of lower number."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.line import FAIR, Line

PLACES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.5, 1.0, 2.0, inf])), max_size=30)


def line_of(places: list[tuple[int, float]]) -> Line[int]:
    line: Line[int] = Line()
    for number, (priority, deadline) in enumerate(places):
        line.join(number, priority, deadline)
    return line


def in_order(places: list[tuple[int, float]]) -> list[int]:
    return sorted(range(len(places)), key=lambda number: (*places[number], number))


@given(PLACES)
def test_a_line_stands_by_priority_then_deadline_then_joining(places: list[tuple[int, float]]) -> None:
    assert list(line_of(places).in_order()) == in_order(places)


@given(PLACES, st.tuples(st.integers(0, 2), st.sampled_from([0.5, 1.0, 2.0, inf])))
def test_who_is_ahead_of_a_newcomer_is_told_before_it_joins(
    places: list[tuple[int, float]], newcomer: tuple[int, float]
) -> None:
    line = line_of(places)
    ahead = line.ahead(*newcomer)
    line.join(-1, *newcomer)
    assert list(line.in_order()).index(-1) == ahead


@given(PLACES, st.data())
def test_whoever_leaves_is_gone_and_all_others_stand_as_before(
    places: list[tuple[int, float]], data: st.DataObject
) -> None:
    line: Line[int] = Line()
    keys = [line.join(number, *place) for number, place in enumerate(places)]
    leaving = data.draw(st.sets(st.sampled_from(range(len(places))))) if places else set()
    assert all(line.leave(keys[number]) for number in leaving)
    assert not any(line.leave(keys[number]) for number in leaving)
    assert list(line.in_order()) == [number for number in in_order(places) if number not in leaving]


@given(PLACES)
def test_everybody_is_taken_once(places: list[tuple[int, float]]) -> None:
    line = line_of(places)
    taken = [line.take() for _ in places]
    assert sorted(taken) == list(range(len(places)))
    with pytest.raises(IndexError):
        line.take()


@given(st.integers(1, 40))
def test_batch_traffic_gets_one_turn_in_eight_however_busy_the_rest_is(patient: int) -> None:
    line: Line[str] = Line()
    for _ in range(patient):
        line.join("batch", 1, inf)
    taken: list[str] = []
    for _ in range(patient * FAIR):
        line.join("interactive", 0, 1.0)
        taken.append(line.take())
    assert taken.count("batch") == patient
    assert taken[: FAIR - 1] == ["interactive"] * (FAIR - 1)


def test_among_equals_the_one_who_moves_stands_as_if_it_had_always_been_there() -> None:
    line: Line[str] = Line()
    first = line.join("first", 1, 5.0)
    line.join("second", 0, 2.0)
    line.move(first, 0, 2.0)
    assert list(line.in_order()) == ["first", "second"]
    with pytest.raises(KeyError):
        line.move(first, 0, 1.0)


def test_a_batch_is_chosen_from_whose_turn_it_is_and_then_from_the_front() -> None:
    line: Line[str] = Line()
    for name, priority in (("a", 0), ("b", 0), ("late", 1), ("later", 1)):
        line.join(name, priority, 1.0)
    turns = [line.turn() for _ in range(FAIR)]
    assert turns[0] == ["a", "b", "late", "later"]
    assert turns[-1] == ["late", "a", "b", "later"]
    assert len(line) == 4
