"""CSV and its kin: every row a block, `column: value; column: value` or as a template says, so that it stands alone."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, islice

from ingest.cleaning import even_lines
from ingest.formats.charset import decode_upload
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.row_template import RowTemplate, folded_values, template_of
from ingest.formats.tables import are_column_names, pairs_text
from pipeline.errors import Unparsable
from pipeline.passages import Block, Upload

_DELIMITERS = "\t;|,"  # the rarer it is in text and numbers, the earlier it is believed
_SAMPLE = 20_000  # characters
_LONGEST_CELL = 1_000_000
_SAID = re.compile(r"sep=(.)\n", re.IGNORECASE)  # how Excel writes a delimiter down, on a line above the rows


def read_rows(upload: Upload, options: ParsingOptions) -> Reading:
    """The first row names the columns where its cells are different words; otherwise they are numbered.

    Raises Unparsable for a template of a column that is not there, InvalidInput for a template that is none.
    """
    template = template_of(upload.options)
    blocks: list[Block] = []
    characters = 0
    try:
        for line in _lines(_rows(upload), template, upload.name):
            characters += len(line)
            options.check_text(upload, characters)  # a long name of a column is said again in every row
            blocks.append(Block(line))
    except csv.Error as error:
        raise Unparsable(
            f"'{upload.name}' could not be read as CSV: {error}. Is a quotation mark left open, or a delimiter unusual?"
        ) from error
    return Reading(tuple(blocks))


def _lines(rows: Iterator[list[str]], template: RowTemplate | None, document: str) -> Iterator[str]:
    begin = list(islice(rows, 2))
    names: list[str] = []
    if len(begin) > 1 and are_column_names(begin[0]):
        names = _names(begin.pop(0))
    if template is not None and begin:
        template.check(document, names or _names(begin[0], numbered=True))
    for row in chain(begin, rows):
        if len(names) < len(row):
            names = [*names, *_names(row, numbered=True)[len(names) :]]
        line = template.fill(folded_values(names, row)) if template else pairs_text(zip(names, row, strict=False))
        if line:
            yield line


def _names(row: Sequence[str], *, numbered: bool = False) -> list[str]:
    return [("" if numbered else cell.strip()) or f"column {number}" for number, cell in enumerate(row, start=1)]


def _rows(upload: Upload) -> Iterator[list[str]]:
    """Rows that say anything. Raises csv.Error."""
    text = even_lines(decode_upload(upload))
    said = _SAID.match(text)
    text = text[said.end() :] if said else text
    csv.field_size_limit(_LONGEST_CELL)
    delimiter = said.group(1) if said else _delimiter(text)
    yield from (row for row in csv.reader(StringIO(text, newline=""), delimiter=delimiter) if any(map(str.strip, row)))


def _delimiter(text: str) -> str:
    """The one that cuts all of the first rows into as many columns, more than one; else the one that does for most.

    (csv.Sniffer tries quoting patterns over the whole sample, in time that explodes on long lines.)
    """
    sample = text[:_SAMPLE].split("\n")[:20]
    sample = sample[:-1] if len(sample) > 1 and len(text) > _SAMPLE else sample

    def agreement(delimiter: str) -> tuple[float, int]:
        try:
            widths = Counter(len(row) for row in csv.reader(sample, delimiter=delimiter) if row)
        except csv.Error:
            return 0.0, 0
        usual, rows = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(0, 0))
        if usual < 2:
            return 0.0, 0
        share = rows / widths.total()
        return share, 0 if share == 1.0 else usual

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best)[0] else ","
