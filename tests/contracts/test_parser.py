"""What every Parser promises."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from ingest.isolation import IsolatedParser
from ingest.parsing import Parsing
from pipeline.errors import Unparsable
from pipeline.passages import Upload
from pipeline.ports import Parser
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


UPLOAD = Upload(
    "folder/a.txt", b"One line, and it ends here.", "text/plain", {"team": "hr", "tags": ("a", "b"), "n": 1}
)


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
