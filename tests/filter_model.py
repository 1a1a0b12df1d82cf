"""Filters as obvious as they can be: a dictionary for each passage, and a loop over all of them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pipeline.filters import Comparison, Filter, Op
from pipeline.passages import Metadata, Passage, Scalar

SIGNS = {Op.GT: operator.gt, Op.GTE: operator.ge, Op.LT: operator.lt, Op.LTE: operator.le}


def fields(passage: Passage) -> Metadata:
    """What a passage can be filtered by."""
    own = {"document_id": passage.document_id, "source": passage.source, "title": passage.title}
    own |= {name: value for name in ("language", "page") if (value := getattr(passage, name)) is not None}
    return {**own, **passage.metadata}


def may_see(passage: Passage, labels: frozenset[str]) -> bool:
    return not passage.access or bool(labels & set(passage.access))


def matches(asked: Filter, held: Metadata) -> bool:
    """Whether a passage with these fields is inside the filter."""
    if not isinstance(asked, Comparison):
        found = [matches(part, held) for part in asked.parts]
        return all(found) if asked.op == "and" else any(found)
    if asked.op in {Op.NE, Op.NIN}:
        return not matches(Comparison(asked.key, Op.EQ if asked.op is Op.NE else Op.IN, asked.value), held)
    if asked.key not in held:
        return False
    value = held[asked.key]
    members = value if isinstance(value, tuple) else (value,)
    sought = asked.value if isinstance(asked.value, tuple) else (asked.value,)
    return any(compares(asked.op, member, each) for member in members for each in sought)


def compares(op: Op, member: Scalar, sought: Scalar) -> bool:
    one, other = as_compared(member, sought), as_compared(sought, sought)
    if one is None or type(one) is not type(other):
        return False
    sign = SIGNS.get(op, operator.eq)
    return bool(sign(one, other))


def as_compared(value: Scalar, sought: Scalar) -> object:
    """In a type of its own for each kind; as an instant where an instant is sought."""
    if isinstance(value, str):
        return moment(value) if moment(sought) is not None else value
    return value if isinstance(value, bool) else Number(value)


class Number:
    """So that 1 and 1.0 are of one type, and True is not."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __gt__(self, other: Number) -> bool:
        return self.value > other.value

    def __ge__(self, other: Number) -> bool:
        return self.value >= other.value

    def __lt__(self, other: Number) -> bool:
        return self.value < other.value

    def __le__(self, other: Number) -> bool:
        return self.value <= other.value


def moment(value: object) -> datetime | None:
    """Dates as the tests write them; nothing else that they write is one."""
    if not isinstance(value, str) or not value[:4].isdigit() or len(value) < 10:
        return None
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def allowed(passages: Sequence[Passage], asked: Filter | None, labels: frozenset[str]) -> list[bool]:
    """For each passage whether it may be found."""
    return [may_see(each, labels) and (asked is None or matches(asked, fields(each))) for each in passages]


def known(passages: Sequence[Passage], labels: frozenset[str]) -> Mapping[str, set[str]]:
    """The fields that one with these labels sees, each with the kinds of its values."""
    found: dict[str, set[str]] = {}
    for passage in passages:
        if not may_see(passage, labels):
            continue
        for name, value in fields(passage).items():
            for member in value if isinstance(value, tuple) else (value,):
                found.setdefault(name, set()).update(kinds(member))
    if found:
        for name in ("document_id", "source", "title", "language"):
            found.setdefault(name, set()).add("text")
        found.setdefault("page", set()).add("number")
    return found


def kinds(value: Scalar) -> set[str]:
    if isinstance(value, str):
        return {"text"} if moment(value) is None else {"text", "date"}
    return {"boolean" if isinstance(value, bool) else "number"}


def makes_sense(asked: Filter, held: Mapping[str, set[str]]) -> bool:
    """Whether every field is there, and holds something of the kind that it is compared with."""
    if not held:
        return True
    if not isinstance(asked, Comparison):
        return all(makes_sense(part, held) for part in asked.parts)
    if asked.key not in held:
        return False
    for value in asked.value if isinstance(asked.value, tuple) else (asked.value,):
        wanted = {"date"} if asked.op in SIGNS and "date" in kinds(value) else kinds(value)
        if not wanted & held[asked.key] or (asked.op in SIGNS and isinstance(value, bool)):
            return False
    return True
