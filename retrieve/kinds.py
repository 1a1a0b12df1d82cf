"""What a metadata value is, as filters see it, and the text that it is kept as.

    text     every string, compared by code point, so that case matters
    date     a string that is also a date as RFC 3339 writes it: 2025-01-31, 2025-01-31T09:30:00Z, …T09:30:00+02:00
    number   integers and fractions on one scale, compared exactly; infinities and NaN are no values
    boolean  true and false, which are no numbers

A date is an instant: a day alone is its midnight in UTC, and so is a time without an offset. Two ways to write one
instant are equal. Instants are told apart by the microsecond.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Flag, auto
from math import isfinite

from pipeline.passages import Scalar

_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,30})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Kind(Flag):
    """What a field holds; fields of several kinds have several."""

    TEXT = auto()
    DATE = auto()
    NUMBER = auto()
    BOOLEAN = auto()


WORDS = {Kind.NUMBER: "numbers", Kind.BOOLEAN: "true or false", Kind.DATE: "dates", Kind.TEXT: "text"}


def told(kind: Kind) -> str:
    """As `numbers and text`, for error messages; that dates are text as well goes without saying."""
    shown = [WORDS[each] for each in WORDS if each in kind]
    return " and ".join(shown) or "nothing"


def kind_of(value: Scalar) -> Kind:
    """All that a value can be compared as: a date is also text."""
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, str):
        return Kind.TEXT if instant(value) is None else Kind.TEXT | Kind.DATE
    return Kind.NUMBER


def instant(text: str) -> int | None:
    """Microseconds since 1970 in UTC, or None for a string that is no date."""
    if len(text) < 10 or not text[0].isdigit() or not _DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:  # the 31st of April
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def coded(value: Scalar) -> tuple[tuple[Kind, str], ...]:
    """What stands for a value in the dictionary of each kind that it has: equal values, and no others, equal texts."""
    if isinstance(value, str):
        moment = instant(value) if value[:1].isdigit() else None
        return ((Kind.TEXT, value),) if moment is None else ((Kind.TEXT, value), (Kind.DATE, str(moment)))
    if isinstance(value, bool):
        return ((Kind.BOOLEAN, "true" if value else "false"),)
    if isinstance(value, int):
        return ((Kind.NUMBER, str(value)),)
    if not isfinite(value):
        return ()
    return ((Kind.NUMBER, str(int(value)) if value.is_integer() else repr(value)),)


def decoded(kind: Kind, text: str) -> str | int | float | bool:
    """What sorts as the values do: the opposite of `coded`, but that an instant stays a number."""
    if kind is Kind.NUMBER:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    if kind is Kind.DATE:
        return int(text)
    return text == "true" if kind is Kind.BOOLEAN else text
