"""XLSX: every sheet under its name, every row a block that names its columns, values as their cells show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ingest.formats.cell_values import NumberFormat
from ingest.formats.element import Element, child, children, local
from ingest.formats.headings import Headings
from ingest.formats.office_package import OfficePackage, relation_of
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.tables import are_column_names, pairs_text, row_text
from pipeline.passages import Upload

_UNNAMED = re.compile(r"(?:sheet|tabelle|feuil|hoja|foglio|blad|planilha|arkusz|лист|シート)\s?\d+", re.IGNORECASE)
_PLACE = re.compile(r"([A-Z]{1,3})\d{1,7}")
_NARROW = 2  # columns; below more of them a cell that stands alone is a note or a subtitle
_TRUE = {"1": "TRUE", "0": "FALSE"}


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    is_word: bool


_NOTHING = _Cell("", is_word=False)


def read_spreadsheet(upload: Upload, options: ParsingOptions) -> Reading:
    """Sheets in order. What is hidden or was never calculated is left out, and a warning says so."""
    headings = Headings()
    characters = 0
    with OfficePackage.open(upload, options) as package:
        book = _Workbook(package)
        for name, part in book.sheets.items():
            headings.enter(1, "" if len(book.sheets) == 1 and _UNNAMED.fullmatch(name) else name)
            for line in _lines(book.rows(part)):
                characters += len(line)
                options.check_text(upload, characters)
                headings.add(line)
        return Reading(headings.blocks(), package.title, headed=False, warnings=tuple(book.warnings()))


def _lines(rows: Iterator[Mapping[int, _Cell]]) -> Iterator[str]:
    """What stands alone in its row above a table is said as it is; the first row with several words names columns."""
    labels: dict[int, str] | None = None
    unused = ""
    for row in rows:
        values = [cell.text for cell in row.values()]
        if labels is None and len(row) > 1:
            labels = {}
            if all(cell.is_word for cell in row.values()) and are_column_names(values):
                labels = {column: cell.text for column, cell in row.items()}
                unused = row_text(values)
                continue
        if labels and (len(row) > 1 or len(labels) <= _NARROW):
            yield pairs_text((labels.get(column, ""), cell.text) for column, cell in row.items())
            unused = ""
        else:
            yield row_text(values)
    if unused:
        yield unused


class _Workbook:
    """Strings, formats and the list of sheets, read once; sheets are streamed."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        root = package.xml(package.main)
        properties = child(root, "workbookPr")
        self._since_1904 = properties is not None and properties.get("date1904") in {"1", "true"}
        self._strings = list(self._shared_strings())
        self._formats = self._read_formats()
        self._hidden: list[str] = []
        self._uncalculated = 0
        self.sheets = dict(self._listed(root))

    def rows(self, part: str) -> Iterator[Mapping[int, _Cell]]:
        """The rows that say anything, their cells by column; the size that a sheet claims to have is not asked."""
        for row in self._package.stream(part, "row"):
            cells: dict[int, _Cell] = {}
            column = -1
            for element in row:
                if local(element) == "c":
                    column = _column(element.get("r") or "", column + 1)
                    cell = self._cell(element)
                    if cell.text.strip():
                        cells[column] = cell
            if cells:
                yield dict(sorted(cells.items()))

    def warnings(self) -> Iterator[str]:
        """What was left out."""
        if self._hidden:
            yield f"Hidden sheets were not read: {', '.join(self._hidden)}."
        if self._uncalculated:
            which = "A formula has" if self._uncalculated == 1 else f"{self._uncalculated} formulas have"
            yield (
                f"{which} no stored result to be read: open the file in a spreadsheet program, which calculates, save "
                "it and send it again."
            )

    def _listed(self, root: Element) -> Iterator[tuple[str, str]]:
        """Names and parts of the sheets that are shown; a part that is listed twice is read once."""
        related = self._package.related(self._package.main)
        seen: set[str] = set()
        for sheet in children(root, "sheets"):
            relation, name = related.get(relation_of(sheet)), sheet.get("name") or ""
            if relation is None or relation.kind != "worksheet" or not self._package.has(relation.part):
                continue
            if sheet.get("state") in {"hidden", "veryHidden"}:
                self._hidden.append(name)
            elif relation.part not in seen:
                seen.add(relation.part)
                yield name, relation.part

    def _cell(self, cell: Element) -> _Cell:
        kind = cell.get("t") or "n"
        inside = {local(inner): inner for inner in cell}
        if kind == "inlineStr":
            return _Cell(_string(inside["is"]) if "is" in inside else "", is_word=True)
        value = (inside["v"].text or "").strip("\r\n") if "v" in inside else ""
        if not value:
            self._uncalculated += "v" not in inside and "f" in inside
            return _NOTHING
        if kind == "s":
            place = int(value) if value.isascii() and value.isdecimal() else -1
            return _Cell(self._strings[place] if 0 <= place < len(self._strings) else "", is_word=True)
        if kind in {"str", "d"}:
            return _Cell(value, is_word=kind == "str")
        if kind == "b":
            return _Cell(_TRUE.get(value, value), is_word=False)
        if kind == "e":  # #N/A and the like
            return _NOTHING
        style = cell.get("s") or "0"
        place = int(style) if style.isascii() and style.isdecimal() else 0
        shown = self._formats[place] if place < len(self._formats) else NumberFormat()
        return _Cell(shown.show(value, since_1904=self._since_1904), is_word=False)

    def _shared_strings(self) -> Iterator[str]:
        part = self._package.related_part(self._package.main, "sharedStrings")
        if part:
            yield from map(_string, self._package.stream(part, "si"))

    def _read_formats(self) -> list[NumberFormat]:
        """One for each style of cell."""
        part = self._package.related_part(self._package.main, "styles")
        if not part:
            return []
        root = self._package.xml(part)
        codes = {entry.get("numFmtId"): entry.get("formatCode") for entry in children(root, "numFmts")}
        used = [entry.get("numFmtId") or "0" for entry in children(root, "cellXfs")]
        made = {
            number: NumberFormat.of(int(number) if number.isascii() and number.isdecimal() else 0, codes.get(number))
            for number in set(used)
        }
        return [made[number] for number in used]


def _string(element: Element) -> str:
    """A string's text, of all its runs; readings above characters are no part of it."""
    pieces: list[str] = []
    for inner in element:
        if local(inner) == "t":
            pieces.append(inner.text or "")
        elif local(inner) == "r":
            run = child(inner, "t")
            pieces.append((run.text or "") if run is not None else "")
    return "".join(pieces)


def _column(place: str, otherwise: int) -> int:
    """The column of a place such as C5, from 0."""
    match = _PLACE.fullmatch(place)
    if match is None:
        return otherwise
    column = 0
    for letter in match.group(1):
        column = 26 * column + ord(letter) - ord("A") + 1
    return column - 1
