"""CSV and its kin: every row a block, `column: value; column: value`, so that a row found alone explains itself."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from io import StringIO

from ingest.cleaning import even_lines
from ingest.formats.charset import decode
from ingest.formats.reading import ParsingOptions, Reading
from pipeline.errors import Unparsable
from pipeline.passages import Block, Upload

_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+]?[\d.,\s]*\d[\d.,\s%€$£]*")


def read_rows(upload: Upload, _: ParsingOptions) -> Reading:
    """The first row names the columns where its cells are different words; otherwise they are numbered."""
    text = even_lines(decode(upload.content, upload.name))
    try:
        rows = [row for row in csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text)) if any(row)]
    except csv.Error as error:
        raise Unparsable(
            f"'{upload.name}' could not be read as CSV: {error}. Is a quotation mark left open, or a delimiter unusual?"
        ) from error
    if not rows:
        return Reading(())
    names, first = (rows[0], 1) if _is_header(rows[0]) and len(rows) > 1 else ([], 0)
    blocks = (Block(text) for row in rows[first:] if (text := pairs_text(_named(row, names))))
    return Reading(tuple(blocks))


def pairs_text(pairs: Iterable[tuple[str, str]]) -> str:
    """`name: value; name: value`, without those that have no value."""
    flat = ((" ".join(name.split()), " ".join(value.split())) for name, value in pairs)
    return "; ".join(f"{name}: {value}" for name, value in flat if value)


def _named(row: list[str], names: list[str]) -> list[tuple[str, str]]:
    numbered = (f"column {number}" for number in range(1, len(row) + 1))
    return [
        (names[index].strip() if index < len(names) and names[index].strip() else number, value)
        for index, (number, value) in enumerate(zip(numbered, row, strict=True))
    ]


def _is_header(row: list[str]) -> bool:
    cells = [cell.strip() for cell in row if cell.strip()]
    return len(set(cells)) == len(cells) > 0 and not any(_NUMBER.fullmatch(cell) for cell in cells)


def _delimiter(text: str) -> str:
    """The one that cuts the first rows into the most columns, the same number in each.

    (csv.Sniffer tries quoting patterns over the whole sample, in time that explodes on long lines.)
    """
    sample = text[:20_000].split("\n")[:20]
    sample = sample[:-1] if len(sample) > 1 and len(text) > 20_000 else sample

    def columns(delimiter: str) -> tuple[bool, int]:
        try:
            widths = [len(row) for row in csv.reader(sample, delimiter=delimiter) if row]
        except csv.Error:
            return False, 0
        return len(set(widths)) == 1 and widths[0] > 1, min(widths, default=0)

    return max(_DELIMITERS, key=columns)
