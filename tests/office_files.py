"""PPTX and XLSX files made for tests, by libraries that share nothing with the code that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import docx
import xlsxwriter
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from pptx import Presentation
from pptx.oxml import parse_xml as parse_shape
from pptx.oxml.ns import nsdecls as shape_names
from pptx.util import Inches

from tests.documents import saved, with_part

W14 = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def presentation(title: str = "") -> bytes:
    """Four slides: a title slide; one with a list, a free text box and notes; one with a table; one without a title."""
    slides = Presentation()
    slides.core_properties.title = title
    first = slides.slides.add_slide(slides.slide_layouts[0])
    first.shapes.title.text = "Safety briefing"
    first.placeholders[1].text = "For all crews"
    second = slides.slides.add_slide(slides.slide_layouts[1])
    frame = second.placeholders[1].text_frame
    frame.text = "Before you start"
    deeper = frame.add_paragraph()
    deeper.text, deeper.level = "Wear gloves", 1
    box = second.shapes.add_textbox(Inches(1), Inches(5), Inches(3), Inches(1))
    box.text_frame.text = "A box that stands free"
    second.shapes.title.text = "The brakes"  # drawn first, entered last
    second.notes_slide.notes_text_frame.text = "Show the lever."
    third = slides.slides.add_slide(slides.slide_layouts[5])
    third.shapes.title.text = "Loads"
    table = third.shapes.add_table(3, 2, Inches(1), Inches(2), Inches(4), Inches(2)).table
    for row, texts in enumerate((("Wagon", "Load"), ("Open", "12 t"), ("Closed", "9 t"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    fourth = slides.slides.add_slide(slides.slide_layouts[6])
    fourth.shapes.add_textbox(Inches(1), Inches(1), Inches(3), Inches(1)).text_frame.text = "No title here"
    return saved(slides)


def slide_of(text: str) -> bytes:
    """One text box on one slide."""
    slides = Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    slide.shapes.add_textbox(Inches(1), Inches(1), Inches(3), Inches(1)).text_frame.text = text
    return saved(slides)


def hidden_slide() -> bytes:
    """Two slides, of which the second is hidden."""
    slides = Presentation()
    for text in ("Shown", "Not shown"):
        slide = slides.slides.add_slide(slides.slide_layouts[5])
        slide.shapes.title.text = text
        slide.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1)).text_frame.text = f"{text} text"
    slides.slides[1]._element.set("show", "0")
    return saved(slides)


def grouped_slide() -> bytes:
    """A slide with a group of two boxes, a footer and a slide number."""
    slides = Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[5])
    slide.shapes.title.text = "Groups"
    group = slide.shapes.add_group_shape()
    for text in ("One of two", "Two of two"):
        group.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1)).text_frame.text = text
    for kind, text in (("ftr", "Company confidential"), ("sldNum", "17")):
        box = slide.shapes.add_textbox(Inches(1), Inches(6), Inches(3), Inches(1))
        box.text_frame.text = text
        place = parse_shape(f'<p:ph {shape_names("p")} type="{kind}"/>')
        box._element.nvSpPr.nvPr.append(place)
    return saved(slides)


def workbook(sheets: Mapping[str, Callable[[Any, Any], None]], **properties: str) -> bytes:
    """Sheets by name, each written by a function of the sheet and the book."""
    buffer = BytesIO()
    book = xlsxwriter.Workbook(buffer, {"in_memory": True})
    book.set_properties(properties)
    for name, write in sheets.items():
        write(book.add_worksheet(name), book)
    book.close()
    return buffer.getvalue()


def rows(*lines: tuple[Any, ...]) -> Callable[[Any, Any], None]:
    """Writes these rows from the first cell on."""

    def write(sheet: Any, _: Any) -> None:
        for number, line in enumerate(lines):
            sheet.write_row(number, 0, line)

    return write


def spreadsheet() -> bytes:
    """Two sheets: prices, and staff."""
    prices = rows(("Item", "Price"), ("Desk", 120), ("Chair", 35.5))
    return workbook({"Prices": prices, "Staff": rows(("Name", "City"), ("Ann", "Oslo"))})


def formatted_sheet() -> bytes:
    """Numbers, dates and truth values as people format them."""

    def write(sheet: Any, book: Any) -> None:
        sheet.write_row(0, 0, ["Due", "At", "Share", "Cost", "Sum", "Paid", "Long", "Plain"])
        sheet.write_datetime(1, 0, _moment(2024, 5, 6), book.add_format({"num_format": "dd/mm/yyyy"}))
        sheet.write_datetime(1, 1, _moment(2024, 5, 6, 14, 30), book.add_format({"num_format": "d.m.yy hh:mm"}))
        sheet.write_number(1, 2, 0.125, book.add_format({"num_format": "0.0%"}))
        sheet.write_number(1, 3, 1234.5, book.add_format({"num_format": '#,##0.00 "EUR"'}))
        sheet.write_formula(1, 4, "=D2*2", None, 2469)
        sheet.write_boolean(1, 5, True)
        sheet.write_number(1, 6, 1.5, book.add_format({"num_format": "[h]:mm"}))
        sheet.write_number(1, 7, 0.1 + 0.2)

    return workbook({"Sheet1": write})


def hidden_sheet() -> bytes:
    """Three sheets, of which one is hidden."""

    def hidden(sheet: Any, _: Any) -> None:
        sheet.write(0, 0, "A secret list")
        sheet.hide()

    return workbook({"Shown": rows(("Visible",)), "Lists": hidden})


def uncalculated_sheet() -> bytes:
    """A formula without a stored result, as programs write that do not calculate."""
    content = workbook({"Sums": rows(("Item", "Total"), ("Desk", "=1+1"))})
    part = part_of(content, "xl/worksheets/sheet1.xml")
    return with_part(content, "xl/worksheets/sheet1.xml", part.replace(b"</f><v>0</v>", b"</f>"))


def word_with_everything() -> bytes:
    """Numbered and nested lists, a text box kept twice, hidden text, a heading by outline level, a header row."""
    document = docx.Document()
    document.add_heading("Rules", level=1)
    document.add_paragraph("Ask", style="List Number")
    document.add_paragraph("Wait", style="List Number")
    document.add_paragraph("Patiently", style="List Bullet 2")
    outlined = document.add_paragraph("An outlined section")
    level = OxmlElement("w:outlineLvl")
    level.set(qn("w:val"), "1")
    outlined._p.get_or_add_pPr().append(level)
    boxed = document.add_paragraph("Beside a box.")
    boxed._p.append(parse_xml(_BOX))
    seen = document.add_paragraph("Seen ")
    seen.add_run("unseen").font.hidden = True
    table = document.add_table(rows=3, cols=2)
    for row, cells in zip(table.rows, (("Class", "Limit"), ("Rail", "300"), ("Bus", "40")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    header = OxmlElement("w:tblHeader")
    table.rows[0]._tr.get_or_add_trPr().append(header)
    return saved(document)


def word_with_notes() -> bytes:
    """Two footnotes, of which the second comes first in the part; plus the line above them, which has an id too."""
    document = docx.Document()
    for number, text in (("3", "Trips are booked early."), ("2", "Hotels are quiet.")):
        paragraph = document.add_paragraph(text)
        reference = f"<w:r {nsdecls('w')}><w:footnoteReference w:id='{number}'/></w:r>"
        paragraph._p.append(parse_xml(reference))
    notes = "".join(
        f"<w:footnote w:id='{number}'><w:p><w:r><w:footnoteRef/><w:t xml:space='preserve'> {text}</w:t></w:r></w:p>"
        "</w:footnote>"
        for number, text in (("2", "By law."), ("3", "Six weeks."))
    )
    line = "<w:footnote w:type='separator' w:id='0'><w:p><w:r><w:separator/></w:r></w:p></w:footnote>"
    content = with_part(
        saved(document), "word/footnotes.xml", f"<w:footnotes {nsdecls('w')}>{line}{notes}</w:footnotes>".encode()
    )
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    related = part_of(content, "word/_rels/document.xml.rels").replace(
        b"</Relationships>", f'<Relationship Id="rId99" Type="{kind}" Target="footnotes.xml"/></Relationships>'.encode()
    )
    return with_part(content, "word/_rels/document.xml.rels", related)


def strict(content: bytes) -> bytes:
    """The same document in the namespaces of the strict form (ISO/IEC 29500), as Word saves it on request."""
    for part, names in {
        "word/document.xml": {W14: "http://purl.oclc.org/ooxml/wordprocessingml/main"},
        "word/styles.xml": {W14: "http://purl.oclc.org/ooxml/wordprocessingml/main"},
        "word/_rels/document.xml.rels": _STRICT_TYPES,
        "_rels/.rels": _STRICT_TYPES,
    }.items():
        changed = part_of(content, part)
        for usual, other in names.items():
            changed = changed.replace(usual.encode(), other.encode())
        content = with_part(content, part, changed)
    return content


_STRICT_TYPES = {
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships": (
        "http://purl.oclc.org/ooxml/officeDocument/relationships"
    )
}

_BOX_TEXT = "<w:txbxContent><w:p><w:r><w:t>In the box.</w:t></w:r></w:p></w:txbxContent>"
_BOX = f"""<w:r {nsdecls("w")} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
 xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml">
<mc:AlternateContent><mc:Choice Requires="wps">
<w:drawing><wps:wsp><wps:txbx>{_BOX_TEXT}</wps:txbx></wps:wsp></w:drawing></mc:Choice>
<mc:Fallback><w:pict><v:textbox>{_BOX_TEXT}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"""


def part_of(content: bytes, name: str) -> bytes:
    """One part of a zipped document."""
    with ZipFile(BytesIO(content)) as archive:
        return archive.read(name)


def _moment(*numbers: int) -> datetime:
    """A cell knows no time zone."""
    return datetime(*numbers, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[arg-type, misc]
