"""Tables of a page as rows of cells, each cell below its column's header."""

from __future__ import annotations

from collections.abc import Callable

from ingest.formats.element import Element
from ingest.formats.tables import table_lines

_MOST_ROWS = 1000  # that one cell may span
_MOST_COLUMNS = 100
_REPEATED = 100  # characters of a cell that spans rows, said again in each of them


def html_table_lines(table: Element, text_of: Callable[[Element], str]) -> list[str]:
    """The caption, then a line for each row; under a single row of headers each cell with its column's name."""
    captions = [text for caption in table.iter("caption") if (text := text_of(caption))]
    rows: list[list[str]] = []
    below: dict[int, tuple[int, str]] = {}  # by column: for how many rows to come, which text
    header_rows = 0
    for row in table.iter("tr"):
        cells = [cell for cell in row if cell.tag in {"td", "th"}]
        is_header = bool(cells) and all(cell.tag == "th" for cell in cells) and len(rows) == header_rows
        header_rows += is_header
        rows.append(_row(cells, below, text_of, is_header=is_header))
    return [*captions, *table_lines(rows, headed=header_rows == 1)]


def _row(
    cells: list[Element], below: dict[int, tuple[int, str]], text_of: Callable[[Element], str], *, is_header: bool
) -> list[str]:
    """`below` is what cells of earlier rows span, and is counted down here."""
    placed: dict[int, str] = {}
    for column, (rows, text) in list(below.items()):
        placed[column] = text
        below[column] = (rows - 1, text)
        if rows == 1:
            del below[column]
    column = 0
    for cell in cells:
        while column in placed:
            column += 1
        text, width, height = text_of(cell), _span(cell, "colspan", _MOST_COLUMNS), _span(cell, "rowspan", _MOST_ROWS)
        for place in range(column, column + width):
            placed[place] = text if place == column or is_header else ""
            if height > 1:
                below[place] = (height - 1, placed[place] if len(text) <= _REPEATED else "")
        column += width
    return [placed.get(place, "") for place in range(max(placed, default=-1) + 1)]


def _span(cell: Element, name: str, most: int) -> int:
    said = (cell.get(name) or "").strip()
    return min(max(int(said), 1), most) if said.isascii() and said.isdecimal() and len(said) < 6 else 1
