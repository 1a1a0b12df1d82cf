"""DOCX: paragraphs and tables in the document's order, headings by their style."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import cast
from zipfile import BadZipFile, ZipFile

import docx
from docx.document import Document as WordDocument

from ingest.formats.element import Element
from ingest.formats.headings import Headings, row_text
from ingest.formats.reading import ParsingOptions, Reading
from pipeline.errors import TooLarge, Unparsable
from pipeline.passages import Upload

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PARAGRAPH, _TABLE, _ROW, _CELL = f"{_W}p", f"{_W}tbl", f"{_W}tr", f"{_W}tc"
_BREAKS = {f"{_W}tab": " ", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_MANY_PARTS = 10_000


def read_word(upload: Upload, options: ParsingOptions) -> Reading:
    """Headings by style, lists as lines; inserted text counts, deleted text, headers and footers do not."""
    try:
        _check_parts(upload, options)
        document = docx.Document(BytesIO(upload.content))
        headings = Headings()
        styles = _styles(document)
        title = document.core_properties.title.strip()
        body = cast("Element", document.element.body)
    except (BadZipFile, zlib.error, EOFError, SyntaxError, KeyError, ValueError, AttributeError) as error:
        raise Unparsable(
            f"'{upload.name}' is damaged or cut short as a DOCX file ({type(error).__name__}: {error}). "
            "Open it in a word processor, save it as .docx and send it again."
        ) from error
    for element in _content(body):
        style = _style_of(element, styles)
        if element.tag == _TABLE:
            headings.add("\n".join(_rows(element)))
        elif match := _HEADING.fullmatch(style):
            headings.enter(int(match.group(1)), _text(element))
        elif style == "title":
            title = title or _text(element)
        else:
            headings.add(("- " if style.startswith("list") and _text(element).strip() else "") + _text(element))
    return Reading(headings.blocks(), title)


def _check_parts(upload: Upload, options: ParsingOptions) -> None:
    """Before anything is unpacked: the directory says how large it becomes, and zipfile unpacks no more than that."""
    with ZipFile(BytesIO(upload.content)) as archive:
        parts = archive.infolist()
        size = sum(part.file_size for part in parts)
        if size > options.unpacked_bytes or len(parts) > _MANY_PARTS:
            raise TooLarge(
                f"'{upload.name}' would unpack to {size:,} bytes in {len(parts):,} parts; at most "
                f"{options.unpacked_bytes:,} bytes in {_MANY_PARTS:,} parts are read. Split it, or remove its pictures."
            )
        if any(part.flag_bits & 1 for part in parts):
            raise Unparsable(f"'{upload.name}' is an encrypted archive. Save it without a password and send it again.")
        for part in parts:
            # Word writes no document types; they are the way to entities that expand without end.
            if part.filename.endswith((".xml", ".rels")) and b"<!DOCTYPE" in archive.read(part):
                raise Unparsable(f"'{upload.name}' declares a document type in {part.filename}; no DOCX file may.")


def _styles(document: WordDocument) -> dict[str, str]:
    """Style names in lower case, by id. Names are English whatever the language of the word processor."""
    return {style.style_id: (style.name or "").lower() for style in document.styles}


def _style_of(element: Element, styles: dict[str, str]) -> str:
    for style in element.iter(f"{_W}pStyle"):
        return styles.get(style.get(f"{_W}val") or "", "")
    return ""


def _content(container: Element) -> Iterator[Element]:
    """Paragraphs and tables, those inside content controls and tracked moves too."""
    for child in container:
        if child.tag in {_PARAGRAPH, _TABLE}:
            yield child
        elif child.tag in {f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins", f"{_W}moveTo", f"{_W}customXml"}:
            yield from _content(child)


def _rows(table: Element) -> Iterator[str]:
    """Rows of this table; a table within a cell becomes part of the cell's line. A merged cell is said once."""
    for row in table.iter(_ROW):
        if _parent(row, _TABLE) is table:
            cells = [
                " ".join(_text(paragraph) for paragraph in cell.iter(_PARAGRAPH))
                for cell in row.iter(_CELL)
                if _parent(cell, _ROW) is row
            ]
            if any(cell.strip() for cell in cells):
                yield row_text(cells)


def _parent(element: Element, tag: str) -> Element | None:
    parent = element.getparent()
    while parent is not None and parent.tag != tag:
        parent = parent.getparent()
    return parent


def _text(paragraph: Element) -> str:
    """Text with tabs and breaks; deleted text has a tag of its own (delText), and moved text is read where it went."""
    pieces: list[str] = []
    for element in paragraph.iter():
        if element.tag == f"{_W}t":
            pieces.append(element.text or "")
        elif element.tag in _BREAKS and _parent(element, f"{_W}pPr") is None:
            pieces.append(_BREAKS[str(element.tag)])
    return "".join(pieces)
