"""HTML: the content kept, what stands around it dropped, tables by their headers."""

from __future__ import annotations

import re

import pytest

from ingest.parsing import Parsing
from pipeline.errors import TooLarge
from pipeline.passages import Block, Document, Upload
from tests.pages import PAGES

_MARKED = re.compile(r"(KEEP|DROP)-[a-z0-9-]+")


def parse(page: str) -> Document:
    return Parsing().parse(Upload("a.html", page.encode()), "d1")


def marks(text: str) -> list[str]:
    return [match.group() for match in _MARKED.finditer(text)]


@pytest.mark.parametrize("name", PAGES)
def test_all_of_the_content_is_kept_and_nothing_of_what_surrounds_it(name):
    document = parse(PAGES[name])
    found = {mark for block in document.blocks for mark in marks(" ".join((*block.heading, block.text)))}
    assert found == {mark for mark in marks(PAGES[name]) if mark.startswith("KEEP")}


def test_a_row_of_a_table_names_its_columns():
    page = (
        "<table><caption>Fares</caption><thead><tr><th></th><th>Adult</th><th>Child</th></tr></thead>"
        "<tbody><tr><th>Oslo</th><td>40</td><td>20</td></tr><tr><td colspan=3>Mountain lines</td></tr>"
        "<tr><th>Voss</th><td>60</td><td></td></tr></tbody></table>"
    )
    assert parse(page).blocks == (Block("Fares\nOslo; Adult: 40; Child: 20\nMountain lines\nVoss; Adult: 60"),)


def test_a_cell_that_spans_rows_is_said_in_each_of_them():
    page = (
        "<table><tr><th>Line</th><th>Stop</th><th>At</th></tr><tr><td rowspan=2>7</td><td>Oslo</td><td>9:00</td></tr>"
        "<tr><td>Voss</td><td>9:30</td></tr></table>"
    )
    assert parse(page).blocks[0].text == "Line: 7; Stop: Oslo; At: 9:00\nLine: 7; Stop: Voss; At: 9:30"


def test_a_table_without_headers_or_with_several_rows_of_them_keeps_its_cells_apart():
    assert parse("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>").blocks[0].text == (
        "a | b\nc | d"
    )
    two = "<table><tr><th>A</th><th>B</th></tr><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert parse(two).blocks[0].text == "A | B\nx | y\n1 | 2"


def test_entities_are_characters():
    assert parse("<p>Fish &amp; chips &lt;5&nbsp;&euro;&#8364;&#x20ac;&unheardof;</p>").blocks[0].text == (
        "Fish & chips <5 €€€&unheardof;"
    )


def test_language_and_title_are_those_that_the_page_declares():
    assert parse('<html xml:lang="fi"><body><p>Tiedot</p></body></html>').language == "fi"
    assert parse('<html><body lang="fi-FI"><p>Tiedot</p></body></html>').language == "fi"
    shared = '<html><head><meta property="og:title" content="Shared"></head><body><p>x</p></body></html>'
    assert parse(shared).title == "Shared"


def test_a_page_of_one_endless_piece_of_text_is_too_large_and_not_empty():
    with pytest.raises(TooLarge, match=r"'a\.html' has 11,000,000 characters, most of them in one piece"):
        parse("word " * 2_200_000)


def test_comments_before_a_page_are_looked_through_in_time_that_grows_with_them_only():
    """Once, a regular expression tried every way to put them together."""
    document = Parsing().parse(Upload("a.txt", b"<!--a-->" * 500 + b"text"), "d")
    assert (document.media_type, len(document.blocks)) == ("text/plain", 1)
