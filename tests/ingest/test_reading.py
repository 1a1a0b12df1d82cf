"""From an upload to what its author is told: options obeyed, warnings shown, failures alone."""

from __future__ import annotations

import pytest

from ingest.catalog import Catalog
from ingest.parsing import Parsing
from ingest.working import BatchOptions, ParseStep
from pipeline.jobs import ItemState
from pipeline.passages import Upload
from tests import documents, hostile_files
from tests.fakes_ingest import LineChunker, OneChunker
from tests.ingesting import TENANT, Workshop, searchable

ROWS = b"Name,City\nAnn,Oslo\nBo,Bern\n"


@pytest.fixture
def workshop(catalog: Catalog) -> Workshop:
    """With the real parser."""
    made = Workshop(catalog)
    chunkers = OneChunker(LineChunker())
    made.parse_step = ParseStep(catalog, Parsing(), chunkers, made.told.extend, BatchOptions())
    return made


def send(workshop: Workshop, *uploads: Upload) -> dict[str, tuple[ItemState, str, tuple[str, ...]]]:
    job = workshop.catalog.accept(TENANT, "handbook", uploads)
    workshop.work()
    return {item.name: (item.state, item.reason, item.warnings) for item in workshop.catalog.items(TENANT, job.id)}


def test_the_same_rows_by_another_template_are_read_anew_and_by_the_same_one_not(workshop):
    by_city = {"csv.template": "{city}: {name}"}
    assert send(workshop, Upload("a.csv", ROWS))["a.csv"][0] is ItemState.PUBLISHED
    assert searchable(workshop.catalog, "handbook") == ["Name: Ann; City: Oslo", "Name: Bo; City: Bern"]
    assert send(workshop, Upload("a.csv", ROWS, options=by_city))["a.csv"][0] is ItemState.PUBLISHED
    assert searchable(workshop.catalog, "handbook") == ["Bern: Bo", "Oslo: Ann"]
    assert send(workshop, Upload("a.csv", ROWS, options=by_city))["a.csv"][0] is ItemState.UNCHANGED


def test_a_template_of_a_column_that_is_not_there_fails_its_document_alone(workshop):
    told = send(
        workshop,
        Upload("a.csv", ROWS, options={"csv.template": "{town}"}),
        Upload("b.csv", ROWS, options={"csv.template": "{city}"}),
    )
    assert told["a.csv"][:2] == (
        ItemState.FAILED,
        "The row template asks for the column 'town', which 'a.csv' does not have. Its columns: Name, City.",
    )
    assert told["b.csv"][0] is ItemState.PUBLISHED


def test_pages_without_text_are_told_beside_a_document_that_is_published(workshop):
    told = send(workshop, Upload("a.pdf", documents.scanned_pdf("ts")))
    assert told["a.pdf"] == (
        ItemState.PUBLISHED,
        "",
        ("Page 2 of 2 has no text and may be scanned: run OCR first to have it found.",),
    )


def test_the_rest_of_a_job_is_done_whatever_one_of_its_documents_is(workshop):
    told = send(
        workshop,
        Upload("bomb.docx", hostile_files.laughing("word")),
        Upload("scan.pdf", documents.scanned_pdf("sss")),
        Upload("fine.txt", b"A good line."),
        Upload("circle.pdf", hostile_files.cyclic_page_tree()),
    )
    assert {name: state for name, (state, _, _) in told.items()} == {
        "bomb.docx": ItemState.FAILED,
        "scan.pdf": ItemState.FAILED,
        "fine.txt": ItemState.PUBLISHED,
        "circle.pdf": ItemState.FAILED,
    }
    assert told["scan.pdf"][1] == "'scan.pdf' has no text on any of its 3 pages; it may be scanned: run OCR first."
    assert searchable(workshop.catalog, "handbook") == ["A good line."]
