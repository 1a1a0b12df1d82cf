"""What every Chunker promises."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import pytest

from ingest.chunking import SentenceChunker
from ingest.whole import WholeChunker
from pipeline.passages import Block, Document
from pipeline.ports import Chunker
from tests.fakes_ingest import LineChunker
from tests.small_tokenizer import write_tokenizer


@pytest.fixture(params=["sentences", "whole", "fake"], scope="module")
def chunker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chunker:
    path: Path = write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")
    match request.param:
        case "sentences":
            return SentenceChunker.open(path)
        case "whole":
            return WholeChunker.open(path)
        case _:
            return LineChunker()


DOCUMENT = Document(
    "d1", "a.md", "", (Block("The archive opens in May."), Block("検索は速い。")), "text/markdown", "en", {"team": "hr"}
)


def test_ids_count_from_zero_within_the_document(chunker):
    passages = chunker.chunk(DOCUMENT)
    assert [(p.id, p.ordinal, p.document_id) for p in passages] == [(f"d1:{n}", n, "d1") for n in range(len(passages))]
    assert passages


def test_a_passage_carries_what_its_document_knows(chunker):
    for passage in chunker.chunk(DOCUMENT):
        assert (passage.source, passage.language, passage.metadata) == ("a.md", "en", {"team": "hr"})
        assert passage.tokens > 0


def test_the_hash_is_of_what_is_encoded(chunker):
    for passage in chunker.chunk(DOCUMENT):
        assert passage.content_hash == blake2b(passage.embedded_text().encode(), digest_size=16).hexdigest()


def test_the_same_document_gives_the_same_passages_under_the_same_fingerprint(chunker):
    assert chunker.fingerprint == chunker.fingerprint != ""
    assert chunker.chunk(DOCUMENT) == chunker.chunk(DOCUMENT)


def test_a_document_without_text_has_no_passage_or_an_empty_one_but_no_failure(chunker):
    assert all(not p.text for p in chunker.chunk(Document("d1", "a.md", "", (), "text/markdown")))
