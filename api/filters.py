"""The field `filters` of a request, in the form that OpenAI's vector stores take, and the filter of the pipeline in it.

    {"type": "eq", "key": "year", "value": 2025}
    {"type": "and", "filters": [{"type": "gte", "key": "year", "value": 2024}, {"type": "in", "key": "tags", "value": ["hr"]}]}

https://platform.openai.com/docs/guides/retrieval#attribute-filtering
"""  # noqa: E501  an example that can be copied

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from pipeline.errors import InvalidInput
from pipeline.filters import Comparison, Compound, Filter, Op
from pipeline.passages import Scalar

DEEPEST = 8  # filters within filters
MOST = 256  # comparisons and compounds together
MOST_VALUES = 1000  # in the lists of `in` and `nin`, together
LONGEST = 1024  # characters of a key or of a text to compare with
SEVERAL = frozenset({Op.IN, Op.NIN})
ORDERED = frozenset({Op.GT, Op.GTE, Op.LT, Op.LTE})

_SCALAR: list[dict[str, Any]] = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_VALUE: dict[str, Any] = {"anyOf": [*_SCALAR, {"type": "array", "items": {"anyOf": _SCALAR}}]}


def _value(given: object) -> Scalar | tuple[Scalar, ...]:
    """A list becomes a tuple. Pydantic itself would tell of every type that a value is not."""
    members = cast("list[object]", given) if isinstance(given, list) else [given]
    for place, member in enumerate(members):
        where = f" (number {place} of the list is not)" if isinstance(given, list) else ""
        if not isinstance(member, (str, int, float, bool)) or (isinstance(member, float) and not isfinite(member)):
            raise _wrong(f"Must be text, a finite number, true, false, or for 'in' and 'nin' a list of those{where}")
        if isinstance(member, str) and not _is_short_text(member):
            raise _wrong(f"Text to compare with must be valid Unicode of at most {LONGEST} characters{where}")
    values = cast("list[Scalar]", members)
    return tuple(values) if isinstance(given, list) else values[0]


def _key(given: object) -> str:
    if not isinstance(given, str) or not given or not _is_short_text(given):
        raise _wrong(f"Must name a field: text of 1 to {LONGEST} characters")
    return given


def _bounded(given: object) -> object:
    """Looks at the whole before any of it is understood, so that what is too much costs nothing."""
    waiting, parts, values = [(given, 1)], 0, 0
    while waiting:
        each, depth = waiting.pop()
        if not isinstance(each, dict):
            continue
        part = cast("dict[str, object]", each)
        within, listed = part.get("filters"), part.get("value")
        values += len(cast("list[object]", listed)) if isinstance(listed, list) else 0
        parts += 1
        if depth > DEEPEST or parts > MOST or values > MOST_VALUES:
            raise _wrong(
                f"Filters may be nested {DEEPEST} deep, and have {MOST} parts and {MOST_VALUES} listed values at most"
            )
        if isinstance(within, list):
            waiting.extend((inner, depth + 1) for inner in cast("list[object]", within))
    return given


class ComparisonIn(BaseModel):
    """One field of a passage against a value; `in` and `nin` take a list of values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, PlainValidator(_key), WithJsonSchema({"type": "string"})] = Field(
        description="A name in the documents' metadata, or document_id, source, title, language or page."
    )
    value: Annotated[Scalar | tuple[Scalar, ...], PlainValidator(_value), WithJsonSchema(_VALUE)]


class CompoundIn(BaseModel):
    """All of the filters, or any of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["and", "or"]
    filters: list[PartIn] = Field(min_length=1)


PartIn = Annotated[ComparisonIn | CompoundIn, Field(discriminator="type")]
CompoundIn.model_rebuild()

FiltersIn = Annotated[
    ComparisonIn | CompoundIn | None,
    BeforeValidator(_bounded),
    Field(
        discriminator="type",
        description="Only passages are found whose fields compare so: OpenAI's form, "
        '{"type": "eq", "key": "year", "value": 2025}, joined and nested by {"type": "and", "filters": [...]}.',
        examples=[{"type": "eq", "key": "source", "value": "safety/first-aid.md"}],
    ),
]


def filter_of(asked: ComparisonIn | CompoundIn | None, at: str = "filters") -> Filter | None:
    """The filter that was asked for; `at` is where in the body it stands. Raises InvalidInput for a value that its
    comparison cannot take, whatever the fields hold."""
    return None if asked is None else _part(asked, at)


def _part(asked: ComparisonIn | CompoundIn, at: str) -> Filter:
    if isinstance(asked, CompoundIn):
        return Compound(
            asked.type, tuple(_part(each, f"{at}.filters[{place}]") for place, each in enumerate(asked.filters))
        )
    op, several = Op(asked.type), isinstance(asked.value, tuple)
    if several != (op in SEVERAL):
        wanted = "a list of values" if op in SEVERAL else "one value; for several use 'in' or 'nin'"
        raise InvalidInput(f"'{op}' compares with {wanted}.", field=f"{at}.value")
    if op in ORDERED and isinstance(asked.value, bool):
        raise InvalidInput(
            f"true and false have no order, so '{op}' cannot compare them. Use 'eq' or 'ne'.", field=f"{at}.value"
        )
    return Comparison(asked.key, op, asked.value, at)


def _is_short_text(text: str) -> bool:
    surrogates = not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
    return len(text) <= LONGEST and not surrogates


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("filter", "{message}", {"message": message})
