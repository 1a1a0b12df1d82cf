"""What is promised of every document, whatever its format, and of those that nobody should have sent."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.formats.reading import ParsingOptions
from ingest.parsing import Parsing
from pipeline.errors import FleetfootError, TooLarge, Unparsable
from pipeline.passages import Document, Upload
from tests import documents, office_files

PDF = documents.pdf([["Hello from a page."]])
WORD = documents.word()
PRESENTATION = office_files.presentation()
SPREADSHEET = office_files.spreadsheet()
BINARY = (
    b'<Relationships><Relationship Id="r" Type="http://x/officeDocument" Target="xl/workbook.bin"/></Relationships>'
)


def parse(name: str, content: bytes, media_type: str | None = None, options: ParsingOptions | None = None) -> Document:
    return Parsing(options).parse(Upload(name, content, media_type), "d1")


@pytest.mark.parametrize(
    ("name", "content", "media_type", "found"),
    [
        ("report.txt", PDF, None, "application/pdf"),
        ("report", b"junk before it\n" + PDF, "text/plain", "application/pdf"),
        ("letter.pdf", WORD, "application/pdf", "wordprocessingml"),
        ("letter.docx", PRESENTATION, None, "presentationml"),
        ("slides.csv", SPREADSHEET, "text/csv", "spreadsheetml"),
        ("sheet.xlsx", b"a,b\n1,2", None, "text/plain"),
        ("about.md", b"A file that begins with %PDF-1.7 is a PDF.", None, "text/markdown"),
        ("page.md", b"<!-- x -->\n<!DOCTYPE html><p>Hi", None, "text/html"),
        ("page", b"\xff\xfe" + "<html><p>Hi".encode("utf-16-le"), None, "text/html"),
        ("notes.pdf", b"only text", None, "text/plain"),
        ("notes.docx", b"only text", None, "text/plain"),
        ("records.txt", b'{"text": "a"}\n{"text": "b"}', None, "application/jsonl"),
        ("README.MD", b"*x*", "application/octet-stream", "text/markdown"),
        ("https://example.org/a/page.html?q=1.txt", b"<p>Hi", None, "text/html"),
        ("upload", b"a,b\n1,2", "text/csv; charset=utf-8", "text/csv"),
        ("upload", b"# x\n\ny", "text/markdown", "text/markdown"),
        ("upload", b"# x", None, "text/plain"),
    ],
)
def test_the_format_is_told_by_content_then_name_then_declaration(name, content, media_type, found):
    assert found in parse(name, content, media_type).media_type


def test_a_title_comes_from_the_sender_then_the_format_then_a_heading_then_the_name():
    content = b"---\ntitle: Front\n---\n# Heading\n\nText"
    assert Parsing().parse(Upload("a/file.md", content, metadata={"title": "Sent"}), "d").title == "Sent"
    assert Parsing().parse(Upload("a/file.md", content, metadata={"title": ""}), "d").title == ""
    assert parse("a/file.md", content).title == "Front"
    assert parse("a/file.md", b"# Heading\n\nText").title == "Heading"
    assert parse("a/my.file.md", b"Text").title == "my.file"


def test_the_senders_metadata_wins_and_stays():
    document = Parsing().parse(Upload("a.md", b"---\nteam: x\nyear: 1\n---\nT", metadata={"team": "hr"}), "d")
    assert document.metadata == {"team": "hr", "year": 1}


def test_the_senders_language_wins_over_the_text():
    german = b"Das ist ein Text, der auf Deutsch geschrieben wurde und den man gut erkennen kann."
    assert parse("a.txt", german).language == "de"
    assert Parsing().parse(Upload("a.txt", german, metadata={"language": "NL-be"}), "d").language == "nl"
    assert Parsing().parse(Upload("a.txt", german, metadata={"language": "dutch"}), "d").language == "de"


def test_a_declared_language_counts_only_where_the_text_does_not_tell():
    assert parse("a.html", b'<html lang="fi"><p>Tiedot</p>').language == "fi"
    english = b'<html lang="fi"><p>This is what the page says, and it is not in the language of the template.</p>'
    assert parse("a.html", english).language == "en"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.md", b"", "has no text: the file is empty"),
        ("blank.txt", b" \n\t\n", "has no text: the file is empty"),
        ("only.md", b"---\ntitle: x\n---\n", "has no text"),
        ("heads.md", b"# Just\n\n## Headings", "has no text"),
        ("tags.html", b"<html><body><nav>Menu</nav></body></html>", "has no text"),
        ("comment.html", b"<!-- nothing -->", "has no text"),
        ("header.csv", b"\n\n", "has no text"),
        ("scan.pdf", documents.scanned_pdf(), "has no text on its only page; it may be scanned: run OCR first"),
        (
            "scans.pdf",
            documents.scanned_pdf("sbs"),
            "has no text on any of its 3 pages; it may be scanned: run OCR first",
        ),
        ("secret.pdf", documents.encrypted_pdf("pw"), "is an encrypted PDF"),
        ("cut.pdf", PDF[: len(PDF) // 2], "damaged or cut short"),
        ("cut.docx", WORD[: len(WORD) // 2], "damaged or cut short"),
        ("hollow.docx", documents.with_part(WORD, "word/document.xml", b"<x/>"), "it has no body"),
        ("lost.docx", documents.with_part(WORD, "_rels/.rels", b"<x"), "damaged or cut short"),
        ("broken.docx", documents.with_part(WORD, "word/document.xml", b"<w:document"), "damaged or cut short"),
        ("bomb.docx", documents.xml_bomb(), "declares a document type"),
        ("sheet.xlsb", documents.zipped({"xl/workbook.bin": b"", "_rels/.rels": BINARY}), "a binary spreadsheet"),
        (
            "text.odt",
            documents.zipped({"mimetype": b"application/vnd.oasis.opendocument.text"}),
            "an OpenDocument file",
        ),
        ("book.epub", documents.zipped({"mimetype": b"application/epub+zip"}), "an e-book"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "an old Office file"),
        ("photo.txt", b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture"),
        ("pages.zip", documents.zipped({"a.txt": b"text"}), "a ZIP archive, which is not read. Unpack it"),
        ("pages.txt.gz", gzip.compress(b"text"), "a gzip archive, which is not read. Unpack it"),
        ("pages.bz2", bz2.compress(b"text"), "a bzip2 archive"),
        ("pages.xz", lzma.compress(b"text"), "an xz archive"),
        ("pages.txt", documents.tarred({"a.txt": b"text"}), "a tar archive"),
        ("film.html", b"\x00\x00\x00\x18ftypmp42" + bytes(100), "a film"),
        ("data.bin", bytes(range(256)) * 8, "binary data"),
        ("deep.json", b"[" * 100_000, "JSON"),
        ("list.jsonl", b"[1]", "no JSON object"),
    ],
)
def test_what_cannot_be_read_says_why_and_names_the_document(name, content, reason):
    with pytest.raises(Unparsable, match=reason) as failure:
        parse(name, content)
    assert f"'{name}'" in str(failure.value)


def test_a_zip_bomb_is_refused_before_it_is_unpacked():
    with pytest.raises(TooLarge, match=r"'bomb.docx' would unpack to 9,\d{3},\d{3} bytes"):
        parse("bomb.docx", documents.zip_bomb(), options=ParsingOptions(unpacked_bytes=8 * 2**20))


def test_a_zip_bomb_that_lies_about_its_size_is_unpacked_no_further_than_it_says():
    with pytest.raises(Unparsable, match="damaged or cut short"):
        parse("bomb.docx", documents.zip_bomb(claimed=1000), options=ParsingOptions(unpacked_bytes=2**20))


def test_a_file_over_the_limit_is_refused_unread():
    with pytest.raises(TooLarge, match=r"'a\.pdf' has 11 bytes; at most 10 are read"):
        parse("a.pdf", b"%PDF-broken", options=ParsingOptions(content_bytes=10))


def test_text_over_the_limit_is_refused():
    with pytest.raises(TooLarge, match=r"'a\.txt' has 11 characters"):
        parse("a.txt", b"hello world", options=ParsingOptions(characters=10))


@pytest.mark.parametrize("name", ["line.txt", "line.md", "line.html", "line.csv", "line.jsonl"])
def test_one_enormous_line_is_read_or_refused_in_bounded_time(name):
    line = b"word " * 400_000
    try:
        document = parse(name, line)
    except Unparsable:
        assert name in {"line.csv", "line.jsonl"}
    else:
        assert sum(len(block.text) for block in document.blocks) == len(line) - 1


@pytest.mark.parametrize("unit", [b"[", b"> ", b"*a ", b"<div>", b"- ", b"`", b"![", b'"', b"\n", b"| "])
def test_deeply_nested_markup_fails_alone_or_is_read(unit):
    for name in ("x.md", "x.html", "x.csv"):
        try:
            reason, read = "", parse(name, b"start " + unit * 5_000 + b" end").blocks
        except Unparsable as error:
            reason, read = str(error), ()
        assert read or f"'{name}'" in reason


@given(
    st.binary(max_size=300), st.sampled_from(["a.md", "a.html", "a.pdf", "a.docx", "a.csv", "a.jsonl", "a.txt", "a"])
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_bytes_are_read_or_refused_with_a_reason(content, name):
    try:
        reason, read = "", parse(name, content).blocks
    except FleetfootError as error:
        reason, read = str(error), ()
    assert read or f"'{name}'" in reason


@given(st.integers(0, len(PDF) - 1), st.binary(min_size=1, max_size=8), st.sampled_from([PDF, WORD]))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_damage_is_survived(place, junk, content):
    damaged = content[: place % len(content)] + junk + content[place % len(content) + len(junk) :]
    try:
        reason, read = "", parse("a", damaged).blocks
    except FleetfootError as error:
        reason, read = str(error), ()
    assert read or "'a'" in reason
