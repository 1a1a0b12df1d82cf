"""DOCX, PPTX and XLSX in depth: what each keeps, beyond headings, lists and tables."""

from __future__ import annotations

import pytest

from ingest.formats.cell_values import NumberFormat
from ingest.parsing import Parsing
from pipeline.passages import Block, Document, Upload
from tests import documents, office_files


def parse(name: str, content: bytes) -> Document:
    return Parsing().parse(Upload(name, content), "d1")


def test_word_lists_boxes_and_headers_are_read_as_they_are_seen():
    document = parse("a.docx", office_files.word_with_everything())
    section = ("Rules", "An outlined section")
    assert document.blocks == (
        Block("1. Ask\n2. Wait\n- Patiently", ("Rules",)),
        Block("Beside a box.", section),
        Block("In the box.", section),
        Block("Seen", section),
        Block("Class: Rail; Limit: 300\nClass: Bus; Limit: 40", section),
    )


def test_a_note_stands_below_what_it_explains_with_the_number_that_a_reader_sees():
    assert [block.text for block in parse("a.docx", office_files.word_with_notes()).blocks] == [
        "Trips are booked early.[1]",
        "[1] Six weeks.",
        "Hotels are quiet.[2]",
        "[2] By law.",
    ]


def test_the_strict_form_of_word_reads_the_same():
    assert parse("a.docx", office_files.strict(documents.word())) == parse("a.docx", documents.word())


def test_a_slide_is_a_page_under_its_title():
    document = parse("a.pptx", office_files.presentation())
    assert document.title == "Safety briefing"
    assert document.blocks == (
        Block("For all crews", ("Safety briefing",), 1),
        Block("Before you start\n- Wear gloves", ("The brakes",), 2),
        Block("A box that stands free", ("The brakes",), 2),
        Block("Notes: Show the lever.", ("The brakes",), 2),
        Block("Wagon: Open; Load: 12 t\nWagon: Closed; Load: 9 t", ("Loads",), 3),
        Block("No title here", (), 4),
    )


def test_a_presentation_is_called_what_its_author_called_it():
    assert parse("a.pptx", office_files.presentation(title="Crew briefing 2026")).title == "Crew briefing 2026"
    assert parse("a.pptx", office_files.presentation(title="PowerPoint Presentation")).title == "Safety briefing"


def test_hidden_slides_are_left_out_and_told():
    document = parse("a.pptx", office_files.hidden_slide())
    assert document.blocks == (Block("Shown text", ("Shown",), 1),)
    assert document.warnings == ("Hidden slides were not read: 2.",)


def test_groups_are_read_and_what_every_slide_repeats_is_not():
    assert [block.text for block in parse("a.pptx", office_files.grouped_slide()).blocks] == [
        "One of two",
        "Two of two",
    ]


def test_a_row_of_a_sheet_names_its_columns_under_the_name_of_the_sheet():
    document = parse("prices.xlsx", office_files.spreadsheet())
    assert document.title == "prices"
    assert document.blocks == (
        Block("Item: Desk; Price: 120", ("Prices",)),
        Block("Item: Chair; Price: 35.5", ("Prices",)),
        Block("Name: Ann; City: Oslo", ("Staff",)),
    )


def test_a_title_above_a_table_and_a_note_below_it_are_not_taken_for_rows():
    lines = (("Fares of 2026",), ("From", "To", "EUR"), ("Oslo", "Bergen", 40), ("Children pay half",))
    content = office_files.workbook({"Sheet1": office_files.rows(*lines)})
    assert [block.text for block in parse("a.xlsx", content).blocks] == [
        "Fares of 2026",
        "From: Oslo; To: Bergen; EUR: 40",
        "Children pay half",
    ]


def test_rows_without_names_of_columns_keep_their_cells_apart():
    content = office_files.workbook({"Sheet1": office_files.rows((1, "Ann"), (2, "Bo"))})
    assert [block.text for block in parse("a.xlsx", content).blocks] == ["1 | Ann", "2 | Bo"]


def test_cells_show_numbers_as_formatted_and_dates_as_everybody_reads_them():
    assert parse("a.xlsx", office_files.formatted_sheet()).blocks[0].text == (
        "Due: 2024-05-06; At: 2024-05-06 14:30; Share: 12.5%; Cost: 1,234.50 EUR; Sum: 2469; Paid: TRUE; "
        "Long: 36:00:00; Plain: 0.3"
    )


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("General", "1234.5", "1234.5"),
        ("General", "0.30000000000000004", "0.3"),
        ("General", "1E+20", "1e+20"),
        ("0", "2.5", "3"),
        ("0.00", "-2.345", "-2.35"),
        ("#,##0", "1234567", "1,234,567"),
        ("[$€-407] #,##0.00;[Red]-[$€-407] #,##0.00", "12.5", "€ 12.50"),
        ('0.0" kg"', "7", "7.0 kg"),
        ("0.00E+00", "12345", "12345"),
        ("# ?/?", "0.5", "0.5"),
        ("yyyy-mm-dd", "1", "1900-01-01"),
        ("yyyy-mm-dd", "61", "1900-03-01"),
        ("m/d/yyyy", "45418.999999", "2024-05-07"),
        ("hh:mm", "0.5", "12:00"),
        ("yyyy", "-1", "-1"),
        ("yyyy", "99999999", "99999999"),
        ("@", "12", "12"),
        ("0", "1e999999", "inf"),
        ("0", "not a number", "not a number"),
    ],
)
def test_a_number_is_shown_by_its_format(code, value, shown):
    assert NumberFormat.of(164, code).show(value) == shown


def test_the_calendar_of_1904_begins_four_years_and_a_day_later():
    assert NumberFormat.of(14).show("0", since_1904=True) == "1904-01-01"


def test_hidden_sheets_are_left_out_and_told():
    document = parse("a.xlsx", office_files.hidden_sheet())
    assert [block.text for block in document.blocks] == ["Visible"]
    assert document.warnings == ("Hidden sheets were not read: Lists.",)


def test_a_formula_that_nobody_calculated_is_told():
    document = parse("a.xlsx", office_files.uncalculated_sheet())
    assert document.warnings[0].startswith("A formula has no stored result to be read: open the file in a spreadsheet")
