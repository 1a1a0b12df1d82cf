"""What `--filter` takes: a filter as the API takes it, or short forms of one comparison; several hold together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from pipeline.errors import InvalidInput

if TYPE_CHECKING:
    from fleetfoot.client import Json

Narrowed = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="FILTER",
        help='Only what compares so: year>=2024, tag=hr, tag!=["hr","it"], or the API\'s JSON. Repeat it: all hold.',
    ),
]
TYPES = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
LISTED = {"eq": "in", "ne": "nin"}
_SHORT = re.compile(r"\s*([^=<>!]+?)\s*(>=|<=|!=|=|>|<)\s*(.*?)\s*", re.DOTALL)


def filter_of(given: Sequence[str] | None) -> Json | None:
    """One filter of all that were given, None for none. Raises InvalidInput for what is neither JSON nor short."""
    parts = [_part(each) for each in given or ()]
    if len(parts) > 1:
        return {"type": "and", "filters": parts}
    return parts[0] if parts else None


def _part(given: str) -> Json:
    if given.lstrip().startswith("{"):
        try:
            return cast("Json", json.loads(given))
        except ValueError as error:
            raise InvalidInput(f"The filter is not JSON: {error}. In a shell, put it in single quotes.") from error
    short = _SHORT.fullmatch(given)
    if short is None:
        raise InvalidInput(
            f"'{given}' is no filter. Write a field, one of = != > >= < <=, and a value, as year>=2024 or tag=hr, in "
            "quotes for the shell; or the API's JSON."
        )
    key, sign, text = short.groups()
    value = _value(text)
    kind = TYPES[sign]
    if isinstance(value, list) and kind not in LISTED:
        raise InvalidInput(f"'{given}' compares with a list, which only = and != can.")
    return {"type": LISTED[kind] if isinstance(value, list) else kind, "key": key, "value": value}


def _value(text: str) -> object:
    """A number, true, false, a list or a quoted text as JSON has them; anything else is text as it stands."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return text if value is None or isinstance(value, dict) else value
