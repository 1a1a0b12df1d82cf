"""What strangers may send, read as in a worker: a reason for its author, bounded memory and time, the next one read."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from ingest.formats.reading import ParsingOptions
from ingest.isolation import IsolatedParser, IsolationOptions
from pipeline.errors import TooLarge, Unparsable
from pipeline.passages import Upload
from tests import documents, hostile_files, office_files

TIGHT = IsolationOptions(memory=2**30, seconds=20)
SMALL = ParsingOptions(unpacked_bytes=32 * 2**20, characters=1_000_000)
FINE = Upload("fine.txt", b"The next one is read.")

SMALL_FILES: dict[str, Callable[[], bytes]] = {
    "a.pdf": lambda: documents.pdf([["A line of text."], ["Another."]], title="T", outline=[(1, 0, "A line of text.")]),
    "a.docx": documents.word,
    "a.pptx": office_files.presentation,
    "a.xlsx": office_files.spreadsheet,
    "a.html": lambda: b"<html><head><title>T</title></head><body><h1>H</h1><table><tr><th>A<th>B<tr><td>1<td>2</table>",
    "a.md": lambda: b"---\ntitle: T\n---\n# H\n\n| A | B |\n|---|---|\n| 1 | 2 |\n\n- item\n",
    "a.csv": lambda: b'Name;City\n"Ann";Oslo\nBo;"Ber\nn"\n',
    "a.jsonl": lambda: b'{"text": "a", "title": "b"}\n{"text": "c", "tags": ["d"]}\n',
    "a.txt": lambda: "HEADING\n\nText in Grüßen, wrapped\nand not.\n".encode("utf-16"),
}


@pytest.fixture(scope="module")
def parser() -> Generator[IsolatedParser, None, None]:
    with IsolatedParser(TIGHT, SMALL) as isolated:
        yield isolated


def reason(parser: IsolatedParser, name: str, content: bytes) -> str:
    """Why it is refused; empty where it is read. Whatever happens, the next document is read."""
    try:
        assert parser.parse(Upload(name, content), "d1").blocks
        refused = ""
    except (Unparsable, TooLarge) as error:
        refused = str(error)
        assert f"'{name}'" in refused
    assert parser.parse(FINE, "d2").blocks[0].text == "The next one is read."
    return refused


@pytest.mark.parametrize("kind", hostile_files.OFFICE)
@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_entities_that_laugh_a_billion_times_are_not_begun(parser, kind, charset):
    assert "declares a document type" in reason(parser, kind, hostile_files.laughing(kind, charset))


@pytest.mark.parametrize("kind", hostile_files.OFFICE)
def test_entities_that_grow_with_the_square_are_not_begun(parser, kind):
    assert "declares a document type" in reason(parser, kind, hostile_files.quadratic(kind))


@pytest.mark.parametrize("kind", hostile_files.OFFICE)
def test_no_document_reads_a_file_of_this_machine(parser, kind, tmp_path: Path):
    (tmp_path / "secret").write_text("a secret of this machine")
    refused = reason(parser, kind, hostile_files.reaching_out(kind, str(tmp_path / "secret")))
    assert "declares a document type" in refused
    assert "a secret" not in refused


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("bomb.docx", lambda: documents.with_part(documents.word(), "word/x.xml", bytes(2**26)), "would unpack to 67,"),
        ("lying.docx", lambda: documents.zip_bomb(claimed=1000), "damaged or cut short"),
        ("nested.zip", lambda: hostile_files.zip_in_zip(3), "is a ZIP archive, which is not read"),
        ("overlapping.docx", lambda: hostile_files.overlapping_zip(60), "would unpack to 512,"),
        ("crowded.docx", lambda: hostile_files.crowded_zip(11_000), "holds 11,0"),
        ("locked.docx", hostile_files.encrypted_office, "is an encrypted Office file. Save it without a password"),
        ("locked.pdf", lambda: documents.encrypted_pdf("secret", "AES-256"), "is an encrypted PDF"),
        ("strings.xlsx", lambda: hostile_files.repeated_string(1000, 100_000), "characters of text or more; at most"),
        ("columns.csv", lambda: hostile_files.column_bomb(100_000, 80), "characters of text or more; at most"),
        ("deep.docx", lambda: hostile_files.deep_word(5000), "is nested too deeply"),
        ("deep.json", lambda: b'{"text": ' + b"[" * 100_000, "nested too deeply"),
        ("circle.pdf", hostile_files.cyclic_page_tree, "damaged or cut short as a PDF"),
        ("inflating.pdf", lambda: hostile_files.inflating_pdf(2**27), "'inflating.pdf'"),
        ("zeros.txt", lambda: bytes(10_000), "holds binary data"),
    ],
)
def test_what_is_made_to_harm_is_refused_with_a_reason(parser, name, content, expected):
    assert expected in reason(parser, name, content())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sheet.xlsx", hostile_files.enormous_sheet),
        ("outline.pdf", hostile_files.cyclic_outline),
        ("form.pdf", hostile_files.form_in_itself),
        ("deep.docx", lambda: hostile_files.deep_word(60)),
        ("span.html", lambda: hostile_files.spanning_table(100)),
        ("nul.txt", lambda: b"One zero\x00 among many letters, which is no harm to any of them, as it turns out." * 3),
        ("marks.txt", ("e" + "\u0301\u0323" * 5000 + " text").encode),
        ("turned.txt", "Text \u202eתיב\u202c and \u2067more\u2069, in both directions.".encode),
    ],
)
def test_what_is_merely_odd_is_read(parser, name, content):
    assert reason(parser, name, content()) == ""


def test_a_gigabyte_in_one_line_is_refused_unread(parser):
    assert "has 1,073,741,824 bytes; at most 67,108,864 are read" in reason(parser, "line.txt", bytes(2**30))


@pytest.mark.parametrize("name", ["line.txt", "line.md", "line.html", "line.csv", "line.jsonl", "line"])
@pytest.mark.parametrize("unit", [b"word ", b"x", b" ", b"<", b"\xc3\xa9", b'"', b"#"])
def test_megabytes_in_one_line_stay_within_the_limits(parser, name, unit):
    """A gigabyte by the scale of the limits that are set here: twice the text that may be read, at least."""
    refused = reason(parser, name, unit * (2 * 2**20 // len(unit)))
    assert refused
    assert "of memory" not in refused


@pytest.mark.parametrize("name", SMALL_FILES)
@pytest.mark.parametrize("part", [0.03, 0.3, 0.6, 0.9, 0.99])
def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes_or_refused(parser, name, part):
    content = SMALL_FILES[name]()
    refused = reason(parser, name, content[: int(part * len(content))])
    if name in {"a.docx", "a.pptx", "a.xlsx"}:
        assert "damaged or cut short" in refused


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.pptx", "a.xlsx", "a.html"])
def test_what_content_tells_is_read_under_every_wrong_name(parser, name):
    content = SMALL_FILES[name]()
    right = parser.parse(Upload(name, content), "d")
    for other in SMALL_FILES:
        found = parser.parse(Upload(other, content), "d")
        assert (found.media_type, found.blocks) == (right.media_type, right.blocks)


@pytest.mark.parametrize("name", ["a.md", "a.csv", "a.txt"])
def test_text_under_a_wrong_name_is_read_or_refused(parser, name):
    for other in SMALL_FILES:
        assert reason(parser, other, SMALL_FILES[name]()) == "" or other == "a.jsonl"
