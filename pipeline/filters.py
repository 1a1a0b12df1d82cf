"""What a search may be narrowed to: comparisons of a passage's fields, joined by `and` and `or`.

A field is a name in a document's metadata, or one of the few that every passage has; what each comparison means for
which kind of value stands in `retrieve/attributes.py`, beside the code that obeys it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.passages import Scalar


class Op(StrEnum):
    """How a field is compared. `ne` and `nin` are the complements of `eq` and `in`."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"


AND, OR = "and", "or"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field against a value; `value` is a tuple for `in` and `nin`, and for no other.

    `at` is where the caller wrote it, as `filters.filters[1]`, for error messages; filters that differ in nothing else
    are equal.
    """

    key: str
    op: Op
    value: Scalar | tuple[Scalar, ...]
    at: str = field(default="filters", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compound:
    """All of the parts (`op` is `and`) or any of them (`or`)."""

    op: str
    parts: tuple[Filter, ...]


Filter = Comparison | Compound


def canonical(asked: Filter) -> str:
    """One text for all filters that say the same in another order or twice; it tells 1, 1.0, "1" and True apart."""
    if isinstance(asked, Comparison):
        value = asked.value
        said = f"[{','.join(sorted({repr(each) for each in value}))}]" if isinstance(value, tuple) else repr(value)
        return f"{asked.key!r} {asked.op.value} {said}"
    parts = sorted({canonical(part) for part in asked.parts})
    return f"{asked.op}({';'.join(parts)})"
