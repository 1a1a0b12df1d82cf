"""Documents made for tests: small ones in every format, and hostile ones."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import docx
from PIL import Image
from pypdf import PdfReader, PdfWriter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas


def pdf(pages: Sequence[Sequence[str]], title: str = "", outline: Sequence[tuple[int, int, str]] = ()) -> bytes:
    """Pages of lines; `outline` has (page from 1, level from 0, heading)."""
    buffer = BytesIO()
    canvas = Canvas(buffer, invariant=True)
    canvas.setTitle(title)
    for number, lines in enumerate(pages, start=1):
        for page, level, heading in outline:
            if page == number:
                canvas.bookmarkPage(heading)
                canvas.addOutlineEntry(heading, heading, level=level)
        for index, line in enumerate(lines):
            canvas.drawString(72, 760 - 16 * index, line)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def scanned_pdf(pages: str = "s") -> bytes:
    """A page for each letter: `s` shows a picture and no letters, `t` text, `b` nothing at all."""
    buffer = BytesIO()
    canvas = Canvas(buffer, invariant=True)
    for number, kind in enumerate(pages, start=1):
        if kind == "s":
            canvas.drawImage(ImageReader(Image.new("L", (40, 40), number)), 100, 100, 300, 300)
        elif kind == "t":
            canvas.drawString(72, 700, f"The {'first second third fourth'.split()[number - 1]} page can be read.")
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def placed_pdf(pieces: Sequence[tuple[float, float, str]], *, turned: int = 0) -> bytes:
    """A page on which each piece of text is drawn at its place, in this order; the page may be shown turned."""
    buffer = BytesIO()
    canvas = Canvas(buffer, pagesize=(600, 800), invariant=True)
    canvas.setPageRotation(turned)
    for left, bottom, text in pieces:
        canvas.setFont("Helvetica", 10)
        canvas.drawString(left, bottom, text)
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def turned_pdf(lines: Sequence[str]) -> bytes:
    """A page whose text runs from the bottom to the top, as on a wide table's page."""
    buffer = BytesIO()
    canvas = Canvas(buffer, pagesize=(600, 800), invariant=True)
    canvas.rotate(90)
    for number, line in enumerate(lines):
        canvas.drawString(72, -100 - 16 * number, line)
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def encrypted_pdf(password: str, algorithm: str = "RC4-128") -> bytes:
    """Opens with the password only; an empty one opens for everybody."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf([["A secret recipe."]]))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
    buffer = BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def word(title: str = "") -> bytes:
    """A heading, a paragraph, a table between paragraphs, a list and a second-level heading."""
    document = docx.Document()
    document.core_properties.title = title
    document.add_heading("Travel", level=1)
    document.add_paragraph("Trips are booked by the office.")
    table = document.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, (("Class", "Limit"), ("Rail", "300 EUR")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("After the table.")
    document.add_heading("Hotels", level=2)
    document.add_paragraph("Quiet ones", style="List Bullet")
    return saved(document)


def word_of(text: str) -> bytes:
    """One paragraph."""
    document = docx.Document()
    document.add_paragraph(text)
    return saved(document)


def saved(document: object) -> bytes:
    """The bytes of a python-docx document."""
    buffer = BytesIO()
    document.save(buffer)  # type: ignore[attr-defined]
    return buffer.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A ZIP archive."""
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    """A tar archive."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return buffer.getvalue()


def with_part(content: bytes, name: str, part: bytes) -> bytes:
    """A zipped document in which one part is replaced or added."""
    buffer = BytesIO()
    with ZipFile(BytesIO(content)) as before, ZipFile(buffer, "w", ZIP_DEFLATED) as after:
        for entry in before.namelist():
            if entry != name:
                after.writestr(entry, before.read(entry))
        after.writestr(name, part)
    return buffer.getvalue()


def zip_bomb(claimed: int | None = None) -> bytes:
    """A DOCX of some 50 kB whose text unpacks to 8 MiB, or claims in its directory to unpack to less."""
    with ZipFile(BytesIO(word())) as archive:
        text = archive.read("word/document.xml")
    content = with_part(word(), "word/document.xml", text + b" " * (8 * 2**20))
    if claimed is None:
        return content
    entry = content.rindex(b"PK\x01\x02")  # the last entry of the central directory; its size stands at byte 24
    return content[: entry + 24] + claimed.to_bytes(4, "little") + content[entry + 28 :]


def xml_bomb() -> bytes:
    """A DOCX whose text is an entity that expands to 10^9 words."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    xml = (
        f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY l0 "lol ">{entities}]>'
        f'<w:document xmlns:w="{namespace}"><w:body><w:p><w:r><w:t>&l9;</w:t></w:r></w:p></w:body></w:document>'
    )
    return with_part(word(), "word/document.xml", xml.encode())
