"""Rows of a table as lines of text, so that a row found alone explains itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LONGEST_LABEL = 80  # characters; a longer "header" is a paragraph, and would be repeated in every row
_NARROW = 2  # columns; below more of them a cell that stands alone is a subtitle
_NUMBER = re.compile(r"[-+]?[\d.,\s]*\d[\d.,\s%€$£]*")


def row_text(cells: Iterable[str]) -> str:
    """One row of a table on one line, its cells kept apart."""
    return " | ".join(" ".join(cell.split()) for cell in cells)


def pairs_text(pairs: Iterable[tuple[str, str]]) -> str:
    """`name: value; name: value`, without those that have no value; a value that has no name stands alone."""
    flat = ((" ".join(name.split()), " ".join(value.split())) for name, value in pairs)
    return "; ".join(f"{name}: {value}" if name else value for name, value in flat if value)


def are_column_names(row: Iterable[str]) -> bool:
    """Whether a first row names the columns: different words, none of them a number or a paragraph."""
    cells = [cell.strip() for cell in row if cell.strip()]
    return len(set(cells)) == len(cells) > 0 and not any(
        len(cell) > _LONGEST_LABEL or _NUMBER.fullmatch(cell) for cell in cells
    )


def table_lines(rows: Sequence[Sequence[str]], *, headed: bool) -> list[str]:
    """A line for each row that says anything: `column: value; …` below a header, else its cells kept apart."""
    filled = [row for row in map(_without_blank_end, rows) if row]
    if headed and len(filled) > 1 and _are_labels(filled[0]):
        labels = [" ".join(cell.split()) for cell in filled[0]]
        return [_labelled(labels, row) for row in filled[1:]]
    return [row_text(row) for row in filled]


def _without_blank_end(row: Sequence[str]) -> Sequence[str]:
    return row[: max((place for place, cell in enumerate(row, start=1) if cell.strip()), default=0)]


def _are_labels(row: Sequence[str]) -> bool:
    return sum(bool(cell.strip()) for cell in row) > 1 and all(len(cell) <= _LONGEST_LABEL for cell in row)


def _labelled(labels: Sequence[str], row: Sequence[str]) -> str:
    """A row of one cell spans the others: it says what the rows below it have in common, and needs no label."""
    if sum(bool(cell.strip()) for cell in row) == 1 and len(labels) > _NARROW and row[0].strip():
        return row_text([row[0]])
    return pairs_text((labels[place] if place < len(labels) else "", cell) for place, cell in enumerate(row))
