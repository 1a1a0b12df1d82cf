"""Which rows of each segment a query may find: its filter, and what the caller's labels open, as one mask.

Both legs get the masks of one call, so that neither can find what the other may not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Protocol

from pipeline.caching import CacheCounts
from pipeline.errors import InvalidInput
from pipeline.filters import Comparison, Compound, Filter, Op, canonical
from pipeline.passages import Scalar
from retrieve.attribute_building import BUILT_IN
from retrieve.attributes import Attributes, Mask
from retrieve.kinds import Kind, kind_of, told

NAME = "filters"
ORDERED = frozenset({Op.GT, Op.GTE, Op.LT, Op.LTE})
SHOWN = 40  # fields that an error lists
LONGEST = 80  # characters of a value that an error repeats


class Filterable(Protocol):
    """A segment, as far as filters see it."""

    @property
    def attributes(self) -> Attributes: ...


def mask_of(
    segments: Sequence[Filterable],
    asked: Filter | None,
    labels: frozenset[str],
    counts: CacheCounts | None = None,
) -> list[Mask | None]:
    """For each segment 1 for every row that may be found, `[rows] uint8`; None where that is all of them.

    Raises InvalidInput for a field that no passage has which the caller may see, and for a value of a kind that the
    field never has; where there is no passage at all every filter is right. Computes, unless `is_known`: not for the
    event loop. Masks are shared, and may not be written to.
    """
    if asked is not None:
        check(asked, segments, labels)
    keys = _keys(segments, asked, labels)
    if counts is not None:
        looked_for = [(each.attributes, key) for each, key in zip(segments, keys, strict=True) if key]
        known = sum(attributes.knows(key) for attributes, key in looked_for)
        counts.hits += known
        counts.computed += len(looked_for) - known
    return [
        segment.attributes.allowed(key, asked, labels) if key else None
        for segment, key in zip(segments, keys, strict=True)
    ]


def mask_in(segment: Filterable, asked: Filter | None, labels: frozenset[str]) -> Mask | None:
    """The mask of one segment, for a filter that was checked against all of them: alone it may lack a field."""
    (key,) = _keys([segment], asked, labels)
    return segment.attributes.allowed(key, asked, labels) if key else None


def is_known(segments: Sequence[Filterable], asked: Filter | None, labels: frozenset[str]) -> bool:
    """Whether `mask_of` need not compute, because it did before or because nothing is to be left out."""
    keys = _keys(segments, asked, labels)
    return all(not key or segment.attributes.knows(key) for segment, key in zip(segments, keys, strict=True))


def _keys(segments: Sequence[Filterable], asked: Filter | None, labels: frozenset[str]) -> list[str]:
    """What each segment keeps its mask under: equal for filters that say the same, asked by those who may see the
    same. Empty where nothing can be left out."""
    said = "" if asked is None else canonical(asked)
    seen = f"{said}|{sorted(labels)!r}"
    return [seen if segment.attributes.restricted else said for segment in segments]


def check(asked: Filter, segments: Sequence[Filterable], labels: frozenset[str]) -> None:
    """Raises InvalidInput where the filter cannot mean anything in these segments."""
    fields: dict[str, Kind] = {}
    for segment in segments:
        attributes = segment.attributes
        if not attributes.recorded and attributes.rows:
            raise InvalidInput(
                "This collection was made by an earlier version, which kept no fields to filter by. Make it anew with "
                "`fleetfoot refresh`, or leave the filter out."
            )
        for name, kind in attributes.fields_for(labels).items():
            fields[name] = fields.get(name, Kind(0)) | kind
    if not fields:
        return
    for name, kind in BUILT_IN.items():
        fields[name] = fields.get(name, Kind(0)) | kind
    for comparison in _comparisons(asked):
        _check_one(comparison, fields)


def _comparisons(asked: Filter) -> Iterable[Comparison]:
    if isinstance(asked, Compound):
        for part in asked.parts:
            yield from _comparisons(part)
    else:
        yield asked


def _check_one(asked: Comparison, fields: dict[str, Kind]) -> None:
    if asked.key not in fields:
        known = [f"{name} ({told(kind)})" for name, kind in sorted(fields.items())]
        more = f", and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        raise InvalidInput(
            f"There is no field '{asked.key[:LONGEST]}' to filter by. Known: {', '.join(known[:SHOWN])}{more}.",
            field=f"{asked.at}.key",
        )
    held = fields[asked.key]
    several = isinstance(asked.value, tuple)
    for place, value in enumerate(asked.value if isinstance(asked.value, tuple) else (asked.value,)):
        kind = kind_of(value)
        if asked.op in ORDERED and kind is Kind.BOOLEAN:
            raise InvalidInput(
                f"true and false have no order, so '{asked.op}' cannot compare them. Use 'eq' or 'ne'.",
                field=f"{asked.at}.value",
            )
        wanted = Kind.DATE if asked.op in ORDERED and Kind.DATE in kind else kind
        if not wanted & held:
            raise InvalidInput(
                f"'{asked.key}' holds {told(held)}, and {_shown(value)} is {_one(wanted)}.",
                field=f"{asked.at}.value[{place}]" if several else f"{asked.at}.value",
            )


def _shown(value: Scalar) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _one(kind: Kind) -> str:
    if Kind.DATE in kind:
        return "a date"
    return {Kind.NUMBER: "a number", Kind.BOOLEAN: "a truth value"}.get(kind, "text")
