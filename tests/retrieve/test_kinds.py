"""How the kind of a value is told, and that it is kept as something that compares as it does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.passages import Scalar
from retrieve.kinds import Kind, coded, decoded, instant, kind_of, told

NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-31T09:30:00Z",
        "2025-01-31t09:30:00z",
        "2025-01-31 09:30:00Z",
        "2025-01-31T09:30:00",
        "2025-01-31T11:30:00+02:00",
        "2025-01-30T23:30:00-10:00",
        "2025-01-31T09:30:00.000000Z",
    ],
)
def test_one_instant_may_be_written_in_many_ways(text: str) -> None:
    assert instant(text) == 1_738_315_800_000_000


def test_a_day_is_its_midnight_in_utc() -> None:
    assert instant("1970-01-02") == instant("1970-01-02T00:00:00Z") == 86_400_000_000


@pytest.mark.parametrize(
    "text",
    ["", "2025", "2025-02-30", "2025-1-1", "25-01-01", "2025-01-31T9:30:00Z", "2025-01-31T24:00:00Z", "２０２５-01-31",
     "2025-01-31T09:30Z", "2025-01-31T09:30:60Z", "2025-01-31 or so", " 2025-01-31", "2025-01-31T09:30:00+2:00"],
)  # fmt: skip
def test_what_is_nearly_a_date_is_text(text: str) -> None:
    assert kind_of(text) is Kind.TEXT


@given(st.datetimes(), st.integers(-23 * 60, 23 * 60))
def test_instants_are_exact_to_the_microsecond(moment: datetime, minutes: int) -> None:
    written = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert instant(written.isoformat()) == (written - epoch) // timedelta(microseconds=1)


@given(NUMBERS, NUMBERS)
def test_numbers_are_equal_as_texts_just_when_they_are_equal(one: float, other: float) -> None:
    ((_, text),), ((_, other_text),) = coded(one), coded(other)
    assert (text == other_text) == (one == other)
    assert decoded(Kind.NUMBER, text) == one


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, Kind.NUMBER),
        (1.5, Kind.NUMBER),
        (True, Kind.BOOLEAN),
        ("1", Kind.TEXT),
        ("2025-01-31", Kind.TEXT | Kind.DATE),
    ],
)
def test_a_value_has_the_kind_that_it_is_compared_as(value: Scalar, kind: Kind) -> None:
    assert kind_of(value) == kind
    assert Kind.DATE | kind == Kind.DATE | Kind(sum(each.value for each, _ in coded(value)))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_cannot_be_compared_is_no_value(value: float) -> None:
    assert coded(value) == ()


def test_kinds_are_told_in_words() -> None:
    assert told(Kind.NUMBER) == "numbers"
    assert told(Kind.TEXT | Kind.DATE) == "dates and text"
