"""Builds the handbook's PDF and DOCX files from `examples/sources`: `python examples/build.py [FOLDER]`.

What it writes is committed, so that nothing needs building before the demo. The same sources and library versions
give the same bytes: dates are fixed and nothing is random. Needs reportlab and python-docx.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import docx as word
from reportlab.lib import colors
from reportlab.lib.pagesizes import A5
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageBreak, PageTemplate, Paragraph, Spacer, Table

SOURCES = Path(__file__).parent / "sources"
HANDBOOK = Path(__file__).parent / "handbook"
BUILT = {
    "workshop/rack-maintenance.pdf": "rack-maintenance.txt",
    "workshop/battery-railcars.pdf": "battery-railcars.txt",
    "records/annual-report-2025.pdf": "annual-report-2025.txt",
    "fr/consignes-hivernales.pdf": "consignes-hivernales.txt",
    "safety/reporting-incidents.docx": "reporting-incidents.txt",
    "people/plough-roster-2026.docx": "plough-roster-2026.txt",
    "de/dienstanweisung-leitstelle.docx": "dienstanweisung-leitstelle.txt",
}
WRITTEN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


class Kind(StrEnum):
    """What a part of a source is."""

    TITLE = "# "
    SECTION = "## "
    LIST = "- "
    TABLE = "|"
    PAGE = "[page]"
    PARAGRAPH = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One heading, paragraph, list, table or page break; `rows` are a table's cells or a list's items."""

    kind: Kind
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A read source; `header` and `footer` stand on each page of a PDF, `outlined` gives it bookmarks."""

    title: str
    header: str
    footer: str
    outlined: bool
    parts: tuple[Part, ...]


def build(target: Path) -> tuple[Path, ...]:
    """Writes every PDF and DOCX below `target` and returns their paths."""
    written: list[Path] = []
    for name, source_name in BUILT.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = read(SOURCES / source_name)
        path.write_bytes(pdf(source) if path.suffix == ".pdf" else docx(source))
        written.append(path)
    return tuple(written)


def read(path: Path) -> Source:
    """Reads `key: value` lines up to the first empty line, then parts separated by empty lines."""
    head, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    facts = dict(line.split(": ", 1) for line in head.splitlines())
    parts = tuple(part(block) for block in body.strip().split("\n\n"))
    return Source(facts["title"], facts.get("header", ""), facts.get("footer", ""), "outline" in facts, parts)


def part(block: str) -> Part:
    """Tells what a block of lines is by how it begins."""
    kind = next(kind for kind in Kind if block.startswith(kind.value))
    lines = block.splitlines()
    if kind is Kind.TABLE:
        return Part(kind, rows=tuple(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines))
    if kind is Kind.LIST:
        return Part(kind, rows=tuple((line.removeprefix(kind.value),) for line in lines))
    return Part(kind, block.removeprefix(kind.value))


def pdf(source: Source) -> bytes:
    """A small A5 document with a running header, a footer and page numbers."""
    buffer = io.BytesIO()
    template = BaseDocTemplate(buffer, pagesize=A5, title=source.title, author=source.header, invariant=1)
    width, height = A5
    frame = Frame(14 * mm, 16 * mm, width - 28 * mm, height - 34 * mm, id="text")

    def header(canvas: Canvas, _: BaseDocTemplate) -> None:
        canvas.setFont("Helvetica", 7)
        canvas.drawString(16 * mm, height - 12 * mm, source.header)

    def footer(canvas: Canvas, document: BaseDocTemplate) -> None:
        canvas.setFont("Helvetica", 7)
        canvas.drawString(16 * mm, 10 * mm, source.footer)
        canvas.drawRightString(width - 16 * mm, 10 * mm, f"{document.page}")

    template.addPageTemplates([PageTemplate(id="page", frames=[frame], onPage=header, onPageEnd=footer)])
    template.build([piece for each in source.parts for piece in flowables(each, outlined=source.outlined)])
    return buffer.getvalue()


class Bookmarked(Paragraph):
    """A heading that is also an entry of the document's outline."""

    def draw(self) -> None:
        text, level = self.getPlainText(), int(self.style.name[-1]) - 1
        canvas: Any = self.canv  # reportlab leaves it untyped
        canvas.bookmarkPage(text)
        canvas.addOutlineEntry(text, text, level)
        super().draw()


def flowables(each: Part, *, outlined: bool) -> Iterator[Flowable]:
    """The part as reportlab sets it."""
    styles = getSampleStyleSheet()
    heading = Bookmarked if outlined else Paragraph
    match each.kind:
        case Kind.TITLE:
            yield heading(escape(each.text), styles["Heading1"])
        case Kind.SECTION:
            yield heading(escape(each.text), styles["Heading2"])
        case Kind.PAGE:
            yield PageBreak()
        case Kind.LIST:
            yield from (Paragraph(escape(row[0]), styles["BodyText"], bulletText="-") for row in each.rows)
        case Kind.TABLE:
            cells = [[Paragraph(escape(cell), styles["BodyText"]) for cell in row] for row in each.rows]
            yield Table(cells, style=[("GRID", (0, 0), (-1, -1), 0.3, colors.grey)], repeatRows=1)
            yield Spacer(1, 3 * mm)
        case Kind.PARAGRAPH:
            yield Paragraph(escape(each.text), styles["BodyText"])


def docx(source: Source) -> bytes:
    """A Word document with real headings, lists and tables."""
    document = word.Document()
    facts = document.core_properties
    facts.title, facts.author = source.title, "Corvane Mountain Railway"
    facts.created = facts.modified = WRITTEN
    for each in source.parts:
        match each.kind:
            case Kind.TITLE:
                document.add_heading(each.text, level=1)
            case Kind.SECTION:
                document.add_heading(each.text, level=2)
            case Kind.LIST:
                for row in each.rows:
                    document.add_paragraph(row[0], style="List Bullet")
            case Kind.TABLE:
                table = document.add_table(rows=0, cols=len(each.rows[0]), style="Table Grid")
                for row in each.rows:
                    for cell, text in zip(table.add_row().cells, row, strict=True):
                        cell.text = text
            case Kind.PAGE:
                document.add_page_break()
            case Kind.PARAGRAPH:
                document.add_paragraph(each.text)
    buffer = io.BytesIO()
    document.save(buffer)
    return with_fixed_dates(buffer.getvalue())


def with_fixed_dates(archive: bytes) -> bytes:
    """The same zip archive with every entry dated alike; python-docx stamps them with the present."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new,
    ):
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name, WRITTEN.timetuple()[:6]), old.read(name), zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else HANDBOOK)
