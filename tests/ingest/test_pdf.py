"""PDF: reading order, paragraphs, running lines, and pages that have no text."""

from __future__ import annotations

import pytest

from ingest.formats.running_lines import without_running_lines
from ingest.parsing import Parsing
from pipeline.errors import Unparsable
from pipeline.passages import Document, Upload
from tests import documents

LEFT = (
    "The archive keeps every letter that was sent to",
    "the society since its first year, and each of them",
    "is listed by sender, by day and by what it is about.",
    "Readers ask at the counter for a box, and bring it",
    "back before the reading room closes in the evening.",
    "Copies are made by the staff, never by the readers,",
    "because the paper of the oldest letters is brittle.",
)
RIGHT = (
    "Visitors who come from far away may write to the",
    "staff in advance, so that boxes are brought up from",
    "the cellar in time. Without notice it takes an hour",
    "or two. On Mondays nothing can be brought up at all,",
    "since the lift is looked after on that day. Groups of",
    "more than ten are asked to come in the morning, when",
    "the reading room is quiet. A short tour is possible.",
)


def parse(content: bytes) -> Document:
    return Parsing().parse(Upload("a.pdf", content), "d1")


def text(content: bytes) -> str:
    return "\n".join(block.text for block in parse(content).blocks)


def column(lines: tuple[str, ...], left: float, top: float = 700) -> list[tuple[float, float, str]]:
    return [(left, top - 14 * number, line) for number, line in enumerate(lines)]


def test_two_columns_are_read_one_after_the_other_even_where_they_are_drawn_line_by_line():
    across = [piece for pair in zip(column(LEFT, 50), column(RIGHT, 310), strict=True) for piece in pair]
    down = column(LEFT, 50) + column(RIGHT, 310)
    assert " ".join(text(documents.placed_pdf(across)).split()) == " ".join((*LEFT, *RIGHT))
    assert " ".join(text(documents.placed_pdf(down)).split()) == " ".join((*LEFT, *RIGHT))


def test_a_heading_over_two_columns_stays_above_both():
    heading = (
        50,
        740,
        "How the archive of the society is used by those who work in it, and by visitors from elsewhere",
    )
    across = [piece for pair in zip(column(LEFT, 50), column(RIGHT, 310), strict=True) for piece in pair]
    assert text(documents.placed_pdf([heading, *across])).split("\n")[0] == heading[2]


def test_the_cells_of_a_row_stay_on_one_line():
    names, prices = [f"Item {n}" for n in range(8)], [f"{n}.50 EUR" for n in range(8)]
    cells = [piece for pair in zip(column(names, 50), column(prices, 310), strict=True) for piece in pair]
    assert text(documents.placed_pdf(cells)).split("\n") == [f"Item {n} {n}.50 EUR" for n in range(8)]


def test_room_between_lines_ends_a_paragraph():
    placed = column(LEFT[:3], 50) + column(RIGHT[:3], 50, top=630)
    assert text(documents.placed_pdf(placed)).split("\n\n") == [" ".join(LEFT[:3]), " ".join(RIGHT[:3])]


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_a_page_that_is_shown_turned_reads_the_same(turned):
    assert text(documents.placed_pdf(column(LEFT, 50), turned=turned)) == text(documents.placed_pdf(column(LEFT, 50)))


def test_text_that_runs_up_the_page_reads_the_same():
    assert " ".join(text(documents.turned_pdf(LEFT)).split()) == " ".join(LEFT)


def test_pages_without_text_are_told_and_the_others_read():
    document = parse(documents.scanned_pdf("tsst"))
    assert [block.page for block in document.blocks] == [1, 4]
    assert document.warnings == (
        "2 pages (2, 3) of 4 have no text and may be scanned: run OCR first to have them found.",
    )


def test_a_blank_page_is_no_scanned_one():
    document = parse(documents.scanned_pdf("tbt"))
    assert ([block.page for block in document.blocks], document.warnings) == ([1, 3], ())


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_what_opens_with_a_password_only_is_refused_and_what_anybody_may_open_is_read(algorithm):
    with pytest.raises(Unparsable, match=r"'a\.pdf' is an encrypted PDF\. Save it without a password"):
        parse(documents.encrypted_pdf("secret", algorithm))
    assert text(documents.encrypted_pdf("", algorithm)) == "A secret recipe."


def test_heads_of_left_and_right_pages_are_dropped_but_for_the_first():
    bodies = [f"What is said on page {'abcdefgh'[n]} alone." for n in range(8)]
    heads = ["The handbook" if n % 2 else "Second chapter" for n in range(8)]
    pages = [f"{head}\n{body}\nmore\nand more\nthe end" for head, body in zip(heads, bodies, strict=True)]
    left = "\n".join(without_running_lines(pages))
    assert all(body in left for body in bodies)
    assert (left.count("The handbook"), left.count("Second chapter")) == (1, 1)


def test_the_title_of_a_chapter_is_dropped_from_its_pages_though_the_book_has_many():
    pages = [f"Chapter {'ABCDEF'[n // 6]}\nbody {'xyz'[n % 3] * (n + 1)}\nmore\nand more\nend" for n in range(36)]
    left = "\n".join(without_running_lines(pages))
    assert [left.count(f"Chapter {letter}") for letter in "ABCDEF"] == [1] * 6


@pytest.mark.parametrize("form", ["{n}", "- {n} -", "[{n}]", "{n} / 9", "{n} of 9", "{roman}"])
def test_page_numbers_are_dropped_in_every_form(form):
    romans = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
    words = [letter * 5 for letter in "abcdefghi"]
    pages = [f"{word}\nof {word}\n{word}s\n{form.format(n=n, roman=romans[n - 1])}" for n, word in enumerate(words, 1)]
    assert without_running_lines(pages) == [page.rsplit("\n", 1)[0] for page in pages]


def test_rows_of_numbers_at_the_edge_of_pages_are_kept():
    pages = ["\n".join(f"{n * 7} {row * 11} {n * row}" for row in range(1, 12)) for n in range(1, 9)]
    assert without_running_lines(pages) == pages


def test_a_single_page_keeps_everything():
    assert without_running_lines(["1\nHead\ntext\n1"]) == ["1\nHead\ntext\n1"]
