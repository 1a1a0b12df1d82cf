"""A row of a table as a sentence of its author's own: `{name}: {price} in {city}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import InvalidInput, Unparsable
from pipeline.passages import Scalar

CSV_TEMPLATE = "csv.template"
"""The option of an upload."""

_OPTIONS = (CSV_TEMPLATE,)
_TOKEN = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_LONGEST = 2000  # characters
_LISTED = 20


@dataclass(frozen=True, slots=True)
class RowTemplate:
    """`parts` are text and column names in turn, text first and last. Names are matched whatever their case."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str, field: str | None = None) -> RowTemplate:
        """Reads a template; `{{` and `}}` are braces. Raises InvalidInput for one that names no column or is broken."""
        if len(text) > _LONGEST:
            raise InvalidInput(f"A row template has {len(text):,} characters, of {_LONGEST:,} at most.", field=field)
        parts = [""]
        end = 0
        for token in _TOKEN.finditer(text):
            parts[-1] += text[end : token.start()]
            end = token.end()
            if token.group() in {"{{", "}}"}:
                parts[-1] += token.group()[0]
            elif len(token.group()) > 2 and token.group()[1:-1].strip():
                parts += [_folded(token.group()), ""]
            else:
                raise InvalidInput(
                    f"The row template has a '{token.group()}' that belongs to no column, at character "
                    f"{token.start() + 1}. Write {{column}} for a value, and {{{{ or }}}} for a brace.",
                    field=field,
                )
        parts[-1] += text[end:]
        if len(parts) == 1:
            raise InvalidInput(
                "The row template names no column. Write {column} where a value belongs, as in '{name}: {price}'.",
                field=field,
            )
        return cls(tuple(parts))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, folded as in `fill`."""
        return self.parts[1::2]

    def check(self, document: str, columns: Sequence[str]) -> None:
        """Raises Unparsable, naming the columns that there are, when it asks for one that is not."""
        known = {_folded(column) for column in columns}
        missing = [column for column in self.columns if column not in known]
        if missing:
            listed = ", ".join(columns[:_LISTED]) + (", …" if len(columns) > _LISTED else "")
            raise Unparsable(
                f"The row template asks for the column '{missing[0]}', which '{document}' does not have. "
                f"Its columns: {listed}."
            )

    def fill(self, values: Mapping[str, str]) -> str:
        """The text of a row, its values by folded name; empty where none of them says anything."""
        filled = [values.get(column, "") for column in self.columns]
        if not any(filled):
            return ""
        pieces = [part for pair in zip(self.parts[::2], filled, strict=False) for part in pair]
        return "".join((*pieces, self.parts[-1]))


def folded_values(names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """A row's values by the names of their columns, in the form in which templates look them up."""
    return {_folded(name): " ".join(value.split()) for name, value in zip(names, values, strict=False)}


def template_of(options: Mapping[str, Scalar]) -> RowTemplate | None:
    """What an upload's options ask for; None where they ask for nothing. Raises InvalidInput."""
    text = options.get(CSV_TEMPLATE)
    return RowTemplate.of(str(text)) if text else None


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an item's options that say how it is read; others say where it comes from."""
    return {name: options[name] for name in _OPTIONS if name in options}


def check_reading_options(options: Mapping[str, Scalar], where: str) -> None:
    """For a door: raises InvalidInput for an option that nobody knows, and for a template that is broken."""
    for name, value in options.items():
        if name not in _OPTIONS:
            raise InvalidInput(
                f"{where} has the option '{name}', which is not known. Known: {', '.join(_OPTIONS)}.",
                field=f"{where}.{name}",
            )
        if not isinstance(value, str):
            raise InvalidInput(f"{where}.{name} must be text.", field=f"{where}.{name}")
        RowTemplate.of(value, f"{where}.{name}")


def _folded(name: str) -> str:
    return " ".join(name.strip("{}").split()).casefold()
