"""CSV by a template of its author's own, and the dialects that programs write."""

from __future__ import annotations

import pytest

from ingest.formats.row_template import CSV_TEMPLATE, RowTemplate, check_reading_options
from ingest.parsing import Parsing
from pipeline.errors import InvalidInput, Unparsable
from pipeline.passages import Upload

CITIES = "Name,Price,City\nDesk,120,Oslo\nChair,35,Bern\n"


def texts(content: str, template: str | None = None, name: str = "a.csv") -> list[str]:
    options = {CSV_TEMPLATE: template} if template else {}
    upload = Upload(name, content.encode(), options=options)
    return [block.text for block in Parsing().parse(upload, "d1").blocks]


def test_a_template_makes_a_sentence_of_every_row():
    assert texts(CITIES, "{name}: {price} EUR in {city}") == ["Desk: 120 EUR in Oslo", "Chair: 35 EUR in Bern"]


def test_a_template_may_repeat_columns_leave_some_out_and_hold_braces():
    assert texts(CITIES, "{{{City}}} {city}") == ["{Oslo} Oslo", "{Bern} Bern"]


def test_a_template_may_number_columns_that_have_no_names():
    assert texts("1,Ann\n2,Bo\n", "{column 2} is no. {column 1}") == ["Ann is no. 1", "Bo is no. 2"]


def test_rows_that_have_nothing_for_a_template_are_left_out():
    assert texts("Name,Price\nDesk,120\n,7\n", "{name}") == ["Desk"]


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(
        Unparsable, match=r"asks for the column 'town', which 'a\.csv' does not have\. Its columns: Name"
    ):
        texts(CITIES, "{name} in {town}")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("no column", "names no column"),
        ("{name", "has a '{' that belongs to no column, at character 1"),
        ("name}", "has a '}' that belongs to no column, at character 5"),
        ("{name} {}", "has a '{}' that belongs to no column, at character 8"),
        ("{a" * 2000, "characters, of 2,000 at most"),
    ],
)
def test_a_broken_template_is_refused_before_anything_is_read(template, reason):
    with pytest.raises(InvalidInput, match=reason):
        RowTemplate.of(template)
    with pytest.raises(InvalidInput) as refused:
        check_reading_options({CSV_TEMPLATE: template}, "documents[3].options")
    assert refused.value.field == "documents[3].options.csv.template"


def test_an_option_that_nobody_knows_is_refused_by_name():
    with pytest.raises(
        InvalidInput, match=r"documents\[0\]\.options has the option 'csv\.tmplate'.*Known: csv\.template"
    ):
        check_reading_options({"csv.tmplate": "{a}"}, "documents[0].options")


def test_a_template_can_reach_nothing_but_columns():
    with pytest.raises(Unparsable, match=r"asks for the column '0\.__class__'"):
        texts(CITIES, "{0.__class__}")


@pytest.mark.parametrize(
    "content",
    [
        "Name;Price\nDesk;1,5\nChair;2,5\n",
        "sep=;\nName;Price\nDesk;1,5\nChair;2,5\n",
        "Name\tPrice\nDesk\t1,5\nChair\t2,5\n",
        'Name,Price\nDesk,"1,5"\nChair,"2,5"\n',
        "Name|Price\r\nDesk|1,5\r\nChair|2,5\r\n",
        "\ufeffName;Price\rDesk;1,5\rChair;2,5\r",
    ],
)
def test_every_dialect_reads_the_same(content):
    assert texts(content) == ["Name: Desk; Price: 1,5", "Name: Chair; Price: 2,5"]


def test_a_line_end_within_quotation_marks_ends_no_row():
    assert texts('Name,Address\nAnn,"1 Road\nOslo ""West"""\n') == ['Name: Ann; Address: 1 Road Oslo "West"']


def test_rows_of_uneven_length_find_their_delimiter():
    assert texts("Name;Price;Note\nDesk;120\nChair;35;oak, old\n;;\n") == [
        "Name: Desk; Price: 120",
        "Name: Chair; Price: 35; Note: oak, old",
    ]
