"""DOCX: paragraphs and tables in the document's order, headings by their style, notes below what they explain."""

from __future__ import annotations

from ingest.formats.element import Element, attribute, child, children, local
from ingest.formats.headings import Headings
from ingest.formats.office_package import OfficePackage
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.tables import table_lines
from ingest.formats.word_styles import WordNumbering, WordStyles
from ingest.formats.word_text import WordText, boxes, content
from pipeline.errors import Unparsable
from pipeline.passages import Block, Upload

_REPEATED = 100  # characters of a cell that spans rows, said again in each of them
_WIDEST = 64  # columns that one cell may span


def read_word(upload: Upload, options: ParsingOptions) -> Reading:
    """Headings by style, lists as lines; text boxes and notes count, deleted text, headers and footers do not."""
    with OfficePackage.open(upload, options) as package:
        body = child(package.xml(package.main), "body")
        if body is None:
            raise Unparsable(
                f"'{upload.name}' is damaged as a DOCX file: it has no body. Save it anew and send it again."
            )
        document = _WordDocument(package)
        document.read(body)
        return Reading(
            document.finished(),
            package.title or document.title,
            language=document.styles.language.lower() or None,
        )


class _WordDocument:
    """Reads a body from its beginning. Items of a list gather until something else comes."""

    def __init__(self, package: OfficePackage) -> None:
        self.styles = WordStyles.of(_part(package, "styles"))
        self.title = ""
        self._numbering = WordNumbering.of(_part(package, "numbering"))
        self._text = WordText(_notes(package))
        self._headings = Headings()
        self._items: list[str] = []

    def read(self, container: Element) -> None:
        """Paragraphs, tables, and what stands in the text boxes that hang on them."""
        for element in content(container, "p", "tbl"):
            if local(element) == "tbl":
                self._end_list()
                self._add("\n".join(self._table(element)))
            else:
                self._paragraph(element)
                for box in boxes(element):
                    self._end_list()
                    self.read(box)

    def finished(self) -> tuple[Block, ...]:
        """Everything that was read."""
        self._end_list()
        return self._headings.blocks()

    def _paragraph(self, paragraph: Element) -> None:
        level = self.styles.level(paragraph)
        if self.styles.is_contents(paragraph):
            return
        if level is not None:
            self._end_list()
            if title := self._text.of(paragraph, numbered=False).strip():
                self._headings.enter(level, title)
            self._add("")
        elif self.styles.is_title(paragraph):
            self._end_list()
            text = self._text.of(paragraph, numbered=False).strip()
            self.title = self.title or text
            self._add("")
        elif (item := self.styles.item(paragraph)) is not None:
            if text := self._text.of(paragraph).strip():
                self._items.append("  " * item.level + self._numbering.mark(item) + text)
        else:
            text = self._text.of(paragraph)
            if text.strip():
                self._end_list()
            self._add(text)

    def _end_list(self) -> None:
        if self._items:
            items, self._items = self._items, []
            self._add("\n".join(items))

    def _add(self, text: str) -> None:
        """A block, and below it the notes that it points to."""
        if self._items:
            return
        self._headings.add(text)
        self._headings.add("\n".join(self._text.take_notes()))

    def _table(self, table: Element) -> list[str]:
        rows: list[list[str]] = []
        header_rows = 0
        for row in content(table, "tr"):
            properties = child(row, "trPr")
            if properties is not None and child(properties, "del") is not None:
                continue
            rows.append(self._row(row, rows[-1] if rows else []))
            header_rows += properties is not None and child(properties, "tblHeader") is not None
        return table_lines(rows, headed=header_rows == 1)

    def _row(self, row: Element, above: list[str]) -> list[str]:
        """Cells by column, so that they stand below their header; a short cell that spans rows is said in each."""
        cells: list[str] = []
        for cell in content(row, "tc"):
            merged = child(cell, "tcPr", "vMerge")
            span = child(cell, "tcPr", "gridSpan")
            text = self._text.of_cell(cell)
            if merged is not None and attribute(merged, "val") != "restart" and not text and len(cells) < len(above):
                text = above[len(cells)] if len(above[len(cells)]) <= _REPEATED else ""
            width = attribute(span, "val") if span is not None else None
            cells += [text, *[""] * (_span(width) - 1)]
        return cells


def _span(width: str | None) -> int:
    return min(int(width), _WIDEST) if width and width.isascii() and width.isdecimal() and len(width) < 4 else 1


def _part(package: OfficePackage, kind: str) -> Element | None:
    part = package.related_part(package.main, kind)
    return package.xml(part) if part else None


def _notes(package: OfficePackage) -> dict[tuple[str, str], Element]:
    """Footnotes and endnotes by kind and id; what draws the line above them has an id, too, and no text."""
    notes: dict[tuple[str, str], Element] = {}
    for kind in ("footnote", "endnote"):
        for note in children(_part(package, f"{kind}s")):
            notes[kind, attribute(note, "id") or ""] = note
    return notes
