"""What every Parser promises."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from ingest.isolation import IsolatedParser
from ingest.parsing import Parsing
from pipeline.errors import Unparsable
from pipeline.passages import Upload
from pipeline.ports import Parser
from tests import documents, office_files
from tests.fakes_ingest import PlainParser


@pytest.fixture(params=["in this process", "isolated", "fake"], scope="module")
def parser(request: pytest.FixtureRequest) -> Generator[Parser, None, None]:
    match request.param:
        case "isolated":
            with IsolatedParser() as isolated:
                yield isolated
        case "fake":
            yield PlainParser()
        case _:
            yield Parsing()


@pytest.fixture(params=["in this process", "isolated"], scope="module")
def real_parser(request: pytest.FixtureRequest) -> Generator[Parser, None, None]:
    if request.param == "isolated":
        with IsolatedParser() as isolated:
            yield isolated
    else:
        yield Parsing()


OFFICE = "application/vnd.openxmlformats-officedocument."

UPLOAD = Upload(
    "folder/a.txt", b"One line, and it ends here.", "text/plain", {"team": "hr", "tags": ("a", "b"), "n": 1}
)


FORMATS = {
    "markdown": ("a.md", b"# T\n\nWords to find", "text/markdown"),
    "text": ("a.txt", b"Words to find", "text/plain"),
    "html": ("a.html", b"<html><body><h1>T</h1><p>Words to find</p>", "text/html"),
    "pdf": ("a.pdf", documents.pdf([["Words to find"]]), "application/pdf"),
    "docx": ("a.docx", documents.word_of("Words to find"), f"{OFFICE}wordprocessingml.document"),
    "pptx": ("a.pptx", office_files.slide_of("Words to find"), f"{OFFICE}presentationml.presentation"),
    "xlsx": (
        "a.xlsx",
        office_files.workbook({"S": office_files.rows(("Words to find",))}),
        f"{OFFICE}spreadsheetml.sheet",
    ),
    "csv": ("a.csv", b"A;B\nWords to find;x\n", "text/csv"),
    "jsonl": ("a.jsonl", b'{"text": "Words to find"}\n', "application/jsonl"),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_that_is_read_keeps_its_words_and_says_what_it_is(real_parser, format_):
    name, content, media_type = FORMATS[format_]
    document = real_parser.parse(Upload(name, content, access=("staff",), metadata={"team": "hr"}), "d3")
    assert any("Words to find" in block.text for block in document.blocks)
    assert (document.id, document.name, document.media_type) == ("d3", name, media_type)
    assert (document.access, document.metadata, document.warnings) == (("staff",), {"team": "hr"}, ())


def test_an_upload_is_read_as_its_options_say(real_parser):
    upload = Upload("a.csv", b"Name,City\nAnn,Oslo\n", options={"csv.template": "{name} lives in {city}"})
    assert [block.text for block in real_parser.parse(upload, "d4").blocks] == ["Ann lives in Oslo"]


def test_what_could_not_be_read_is_said_beside_what_could(real_parser):
    document = real_parser.parse(Upload("a.pdf", documents.scanned_pdf("ts")), "d5")
    assert document.warnings == ("Page 2 of 2 has no text and may be scanned: run OCR first to have it found.",)


def test_a_document_has_the_id_it_was_given_and_all_that_its_sender_said(parser):
    document = parser.parse(UPLOAD, "d7")
    assert (document.id, document.name, document.media_type) == ("d7", "folder/a.txt", "text/plain")
    assert document.metadata == {"team": "hr", "tags": ("a", "b"), "n": 1}
    assert [block.text for block in document.blocks] == ["One line, and it ends here."]


def test_the_same_upload_gives_the_same_document(parser):
    assert parser.parse(UPLOAD, "d7") == parser.parse(UPLOAD, "d7")


def test_what_cannot_be_read_is_a_reason_with_its_name_and_harms_nobody_else(parser):
    with pytest.raises(Unparsable, match=r"'x\.pdf'"):
        parser.parse(Upload("x.pdf", b"%PDF-1.7 BROKEN"), "d8")
    assert parser.parse(UPLOAD, "d7").blocks
