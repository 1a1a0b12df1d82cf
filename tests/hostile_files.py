"""Files that nobody sends by accident, each made here from a small valid one or by hand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from io import BytesIO
from zipfile import ZipFile

from tests import documents, office_files
from tests.documents import with_part, zipped
from tests.office_files import part_of

MAIN = {"word": "word/document.xml", "presentation": "ppt/slides/slide1.xml", "spreadsheet": "xl/sharedStrings.xml"}
OFFICE = {
    "word": documents.word,
    "presentation": office_files.presentation,
    "spreadsheet": office_files.spreadsheet,
}


def laughing(kind: str, charset: str = "utf-8") -> bytes:
    """An Office file whose text is an entity that expands to 10^9 words (billion laughs)."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return _with_type(kind, f'<!ENTITY l0 "lol ">{entities}', "&l9;", charset)


def quadratic(kind: str) -> bytes:
    """An Office file that says one long entity many times: 2 MB that become 10 GB."""
    return _with_type(kind, f'<!ENTITY a "{"a" * 1_000_000}">', "&a;" * 10_000, "utf-8")


def reaching_out(kind: str, path: str) -> bytes:
    """An Office file whose text is another file of the machine that reads it."""
    return _with_type(kind, f'<!ENTITY x SYSTEM "file://{path}">', "&x;", "utf-8")


def _with_type(kind: str, entities: str, text: str, charset: str) -> bytes:
    content = OFFICE[kind]()
    xml = part_of(content, MAIN[kind]).decode()
    begin = xml.index("<", xml.index("?>"))
    root = xml[begin + 1 :].split(">", 1)[0].split(" ", 1)[0]
    changed = xml[begin:].replace("<w:t>", f"<w:t>{text}", 1).replace("<a:t>", f"<a:t>{text}", 1)
    changed = changed.replace("<t>", f"<t>{text}", 1)
    declared = f'<?xml version="1.0" encoding="{charset}"?><!DOCTYPE {root} [{entities}]>{changed}'
    return with_part(content, MAIN[kind], declared.encode(charset))


def zip_in_zip(depth: int) -> bytes:
    """An archive in an archive in an archive, the innermost of 8 MiB."""
    content = zipped({"zeros": bytes(8 * 2**20)})
    for _ in range(depth):
        content = zipped({f"{number}.zip": content for number in range(4)})
    return content


def overlapping_zip(entries: int) -> bytes:
    """A DOCX whose directory lists one compressed part, of 8 MiB, many times under different names."""
    content = with_part(documents.word(), "word/extra.xml", b"<x>" + b" " * (8 * 2**20) + b"</x>")
    begin, end = content.index(b"PK\x01\x02"), content.rindex(b"PK\x05\x06")
    last = content[content.rindex(b"PK\x01\x02") : end]
    again = b"".join(last.replace(b"word/extra.xml", f"word/{number:05}.xml".encode()) for number in range(entries))
    directory = content[begin:end] + again
    count = content[begin:end].count(b"PK\x01\x02") + entries
    return (
        content[:begin]
        + directory
        + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), begin, 0)
    )


def crowded_zip(entries: int) -> bytes:
    """A DOCX with so many empty parts."""
    buffer = BytesIO(documents.word())
    with ZipFile(buffer, "a") as archive:
        for number in range(entries):
            archive.writestr(f"word/media/{number}", b"")
    return buffer.getvalue()


def encrypted_office() -> bytes:
    """How Office keeps a document under a password: an OLE container with a stream of that name."""
    names = b"".join(name.encode("utf-16-le").ljust(128, b"\x00") for name in ("EncryptionInfo", "EncryptedPackage"))
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + names + bytes(1024)


def repeated_string(cells: int, characters: int) -> bytes:
    """A sheet whose cells all refer to one long string."""
    content = office_files.workbook({"Sheet1": office_files.rows(("Long", "Longer"), ("x" * 100, "y"))})
    strings = part_of(content, "xl/sharedStrings.xml").replace(b"x" * 100, b"x" * characters)
    row = b"<row>" + b'<c t="s"><v>2</v></c>' * 100 + b"</row>"
    sheet = part_of(content, "xl/worksheets/sheet1.xml").replace(
        b"</sheetData>", row * (cells // 100) + b"</sheetData>"
    )
    return with_part(with_part(content, "xl/sharedStrings.xml", strings), "xl/worksheets/sheet1.xml", sheet)


def enormous_sheet() -> bytes:
    """A sheet that claims a million rows of 16,384 columns, and has a cell in the last of them."""
    content = office_files.spreadsheet()
    sheet = part_of(content, "xl/worksheets/sheet1.xml")
    begin, end = sheet.index(b"<dimension"), sheet.index(b"/>", sheet.index(b"<dimension"))
    cell = b'<row r="1048576"><c r="XFD1048576"><v>7</v></c></row></sheetData>'
    sheet = sheet[:begin] + b'<dimension ref="A1:XFD1048576"' + sheet[end:]
    return with_part(content, "xl/worksheets/sheet1.xml", sheet.replace(b"</sheetData>", cell))


def deep_word(depth: int) -> bytes:
    """Tables within tables."""
    content = documents.word()
    table = (
        b"<w:tbl><w:tr><w:tc>" * depth + b"<w:p><w:r><w:t>deep</w:t></w:r></w:p>" + b"</w:tc></w:tr></w:tbl>" * depth
    )
    document = part_of(content, MAIN["word"]).replace(b"<w:body>", b"<w:body>" + table)
    return with_part(content, MAIN["word"], document)


def pdf_of(objects: Mapping[int, bytes], root: int = 1) -> bytes:
    """A PDF of these objects, with a correct table of where they stand."""
    content = b"%PDF-1.7\n"
    places: dict[int, int] = {}
    for number, body in objects.items():
        places[number] = len(content)
        content += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = b"".join(f"{number} 1\n{place:010} 00000 n \n".encode() for number, place in places.items())
    size = max(objects) + 1
    return (
        content
        + b"xref\n0 1\n0000000000 65535 f \n"
        + table
        + f"trailer\n<< /Size {size} /Root {root} 0 R >>\nstartxref\n{len(content)}\n%%EOF\n".encode()
    )


def stream(data: bytes, entries: str = "") -> bytes:
    """A compressed stream object."""
    packed = zlib.compress(data, 9)
    return f"<< /Length {len(packed)} /Filter /FlateDecode {entries} >>\nstream\n".encode() + packed + b"\nendstream"


_FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def _pages(kids: str, count: int = 1) -> bytes:
    return f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode()


def _page(contents: int = 4, more: str = "") -> bytes:
    return (
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {contents} 0 R "
        f"/Resources << /Font << /F1 5 0 R >> {more} >> >>"
    ).encode()


def cyclic_page_tree() -> bytes:
    """Pages whose children are their parents."""
    return pdf_of(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: _pages("3 0 R", 2**31 - 1),
            3: b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 5 /Parent 2 0 R >>",
        }
    )


def cyclic_outline() -> bytes:
    """One good page, and bookmarks that follow each other in a circle."""
    return pdf_of(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>",
            2: _pages("3 0 R"),
            3: _page(),
            4: stream(b"BT /F1 12 Tf 72 700 Td (A page that is fine.) Tj ET"),
            5: _FONT,
            6: b"<< /Type /Outlines /First 7 0 R /Last 8 0 R /Count 2 >>",
            7: b"<< /Title (One) /Parent 6 0 R /Next 8 0 R /Dest [3 0 R /Fit] >>",
            8: b"<< /Title (Two) /Parent 6 0 R /Next 7 0 R /First 7 0 R /Dest [3 0 R /Fit] >>",
        }
    )


def form_in_itself() -> bytes:
    """A page that paints a form that paints itself."""
    return pdf_of(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: _pages("3 0 R"),
            3: _page(more="/XObject << /X 6 0 R >>"),
            4: stream(b"BT /F1 12 Tf 72 700 Td (Before the form.) Tj ET /X Do"),
            5: _FONT,
            6: stream(
                b"/X Do BT /F1 12 Tf 72 600 Td (In the form.) Tj ET /X Do",
                "/Type /XObject /Subtype /Form /BBox [0 0 600 800] "
                "/Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >>",
            ),
        }
    )


def inflating_pdf(size: int) -> bytes:
    """A page whose content unpacks to that many blanks, and a word."""
    return pdf_of(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: _pages("3 0 R"),
            3: _page(),
            4: stream(b" " * size + b"BT /F1 12 Tf 72 700 Td (Found.) Tj ET"),
            5: _FONT,
        }
    )


def column_bomb(rows: int, characters: int) -> bytes:
    """CSV with a name of a column, to be said again in each of many rows."""
    return b"n" * characters + b",m\n" + b"1,2\n" * rows


def spanning_table(rows: int) -> bytes:
    """An HTML table whose first cells claim to span everything."""
    cell = f'<td rowspan="65534" colspan="1000">{"x" * 90}</td>'
    return f"<table><tr>{cell * 20}</tr>{'<tr><td>1</td></tr>' * rows}</table>".encode()
