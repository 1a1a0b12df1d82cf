"""The text of one page of a PDF in reading order, with blank lines where paragraphs end.

pypdf gives text in the order in which the page draws it, mostly that of reading, and tells where each piece begins.
How wide a piece is it does not tell, so columns are only taken apart where the page draws across them line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from pypdf import PageObject

_GAP = 1.45  # of the usual distance of lines; leading within a paragraph varies by less
_LEAST_LINES = 6  # that two columns share before they are taken for columns
_SAME = 0.3  # of the size of its letters; a raised 2 still stands on its line
_FULL = 0.6  # of the width of a column that its lines fill; cells of a table are shorter
_EMS = 0.5  # width of a character, in font sizes
_PICTURE = re.compile(rb"(?<![\w/])(?:Do|BI)(?!\w)")
_OUTLINES = 20_000  # bytes of drawing; letters that were turned into outlines take more, a frame takes less


@dataclass(frozen=True, slots=True)
class Piece:
    """Text with the place where it begins, as a reader of that text sees it: from the left, and from the top.

    `turn` is by how much the text is turned, in degrees; pieces of different turns cannot be compared.
    """

    text: str
    left: float
    top: float
    size: float
    turn: int


Line = list[Piece]


def page_text(page: PageObject) -> str:
    """The text of a page; empty for one that has none."""
    pieces: list[Piece] = []

    def see(text: Any, page_matrix: Any, text_matrix: Any, _: Any, size: Any) -> None:
        if text:
            pieces.append(_piece(str(text), page_matrix, text_matrix, float(size)))

    whole = page.extract_text(visitor_text=see)
    if "".join(piece.text for piece in pieces) != whole:  # some pieces were not told: their order is the best there is
        return whole
    return joined_lines(_lines(pieces))


def shows_picture(page: PageObject) -> bool:
    """Whether a page draws a picture, or as much as a page of outlines; a blank page draws nothing."""
    contents = page.get_contents()
    drawn = contents.get_data() if contents is not None else b""
    return bool(_PICTURE.search(drawn)) or len(drawn) > _OUTLINES


def joined_lines(lines: Sequence[Line]) -> str:
    """Lines in reading order, an empty one between them where the page leaves more room than usual, or turns."""
    ordered = by_columns(lines)
    steps = [step for above, below in pairwise(ordered) if (step := _step(above, below)) > 0]
    usual = median(steps) if len(steps) > 2 else float("inf")
    text: list[str] = []
    for place, line in enumerate(ordered):
        if place and (ordered[place - 1][0].turn != line[0].turn or _step(ordered[place - 1], line) > _GAP * usual):
            text.append("")
        text.append("".join(piece.text for piece in line).strip())
    return "\n".join(text)


def by_columns(lines: Sequence[Line]) -> list[Line]:
    """Runs of lines that hold a left and a right column: all of the left one before all of the right one."""
    gutter = _gutter(lines)
    if gutter is None:
        return list(lines)
    ordered: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for line in lines:
        before = [piece for piece in line if piece.left < gutter]
        after = [piece for piece in line if piece.left >= gutter]
        if not after and _right_end(line) > gutter:  # a heading over both columns
            ordered += [*left, *right, line]
            left, right = [], []
            continue
        left += [before] if before else []
        right += [after] if after else []
    return [*ordered, *left, *right]


def _gutter(lines: Sequence[Line]) -> float | None:
    """Where the right column begins, if the lines are drawn across two columns of running text."""
    shared = [line for line in lines if len(line) > 1 and line[0].turn == 0]
    starts = sorted(piece.left for line in shared for piece in line[1:])
    if len(shared) < _LEAST_LINES:
        return None
    begin = starts[len(starts) // 2]
    across = [line for line in shared if any(abs(piece.left - begin) < piece.size for piece in line[1:])]
    if len(across) < max(_LEAST_LINES, 0.6 * len(lines) / 2):
        return None
    width = begin - min(line[0].left for line in across)
    filled = [_width([piece for piece in line if piece.left < begin - piece.size]) / width for line in across if width]
    after = [_width([piece for piece in line if piece.left >= begin - piece.size]) / width for line in across if width]
    return begin - 1 if filled and min(median(filled), median(after)) >= _FULL else None


def _right_end(line: Line) -> float:
    return line[-1].left + _EMS * line[-1].size * len(line[-1].text.rstrip())


def _width(pieces: Sequence[Piece]) -> float:
    return sum(_EMS * piece.size * len(piece.text.strip()) for piece in pieces)


def _step(above: Line, below: Line) -> float:
    return below[0].top - above[0].top if above[0].turn == below[0].turn else 0.0


def _lines(pieces: Sequence[Piece]) -> list[Line]:
    """Pieces that follow each other up to a line's end. Blank pieces are the room between two others."""
    lines: list[Line] = []
    line: Line = []
    for piece in pieces:
        if piece.text.strip():
            line.append(piece)
        elif line and "\n" not in piece.text:
            last = line.pop()
            line.append(replace(last, text=f"{last.text} "))
        if piece.text.endswith("\n") and line:
            lines.append(line)
            line = []
    return _rejoined([*lines, line] if line else lines)


def _rejoined(lines: Sequence[Line]) -> list[Line]:
    """What stands further right on the same height goes on with the line: a cell of the same row, the next column.

    Many programs end every piece of text with the operator for a new line, which pypdf takes at its word.
    """
    joined: list[Line] = []
    for line in lines:
        last = joined[-1][-1] if joined else None
        if last is not None and _goes_on(last, line[0]):
            joined[-1] = [*joined[-1][:-1], replace(last, text=f"{last.text.rstrip()} "), *line]
        else:
            joined.append(line)
    return joined


def _goes_on(last: Piece, next_: Piece) -> bool:
    level = abs(next_.top - last.top) <= _SAME * min(last.size, next_.size)
    return level and last.turn == next_.turn and last.left < next_.left


def _piece(text: str, page_matrix: Sequence[float], text_matrix: Sequence[float], size: float) -> Piece:
    _, b, c, d, e, f = _product(text_matrix, page_matrix)
    scale = (c * c + d * d) ** 0.5
    if d > 1e-6:
        turn, left, top = 0, e, -f
    elif d < -1e-6:
        turn, left, top = 180, -e, f
    elif b > 0:
        turn, left, top = 90, f, e
    else:
        turn, left, top = 270, -f, -e
    return Piece(text, left, top, abs(size) * scale, turn)


def _product(m: Sequence[float], n: Sequence[float]) -> tuple[float, float, float, float, float, float]:
    """Text space to page space (ISO 32000-1, 8.3.4)."""
    return (
        m[0] * n[0] + m[1] * n[2],
        m[0] * n[1] + m[1] * n[3],
        m[2] * n[0] + m[3] * n[2],
        m[2] * n[1] + m[3] * n[3],
        m[4] * n[0] + m[5] * n[2] + n[4],
        m[4] * n[1] + m[5] * n[3] + n[5],
    )
