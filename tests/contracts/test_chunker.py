"""What every Chunker promises."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import pytest

from ingest.chunking import ChunkOptions, SentenceChunker
from ingest.headings import HeadingChunker, HeadingOptions
from ingest.whole import WholeChunker
from ingest.windows import TokenChunker, WindowOptions
from pipeline.passages import Block, Document
from pipeline.ports import Chunker
from tests.fakes_ingest import LineChunker
from tests.small_tokenizer import write_tokenizer

MAKERS: dict[str, Callable[[Path], Chunker]] = {
    "sentences": SentenceChunker.open,
    "sentences-overlapping": lambda path: SentenceChunker.open(path, ChunkOptions(16, 8)),
    "headings": HeadingChunker.open,
    "headings-merged": lambda path: HeadingChunker.open(path, HeadingOptions(16, 8, 16)),
    "tokens": TokenChunker.open,
    "tokens-overlapping": lambda path: TokenChunker.open(path, WindowOptions(16, 8)),
    "whole": WholeChunker.open,
    "fake": lambda _: LineChunker(),
}


@pytest.fixture(params=MAKERS, scope="module")
def chunker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chunker:
    return MAKERS[request.param](write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


DOCUMENT = Document(
    "d1", "a.md", "", (Block("The archive opens in May."), Block("検索は速い。")), "text/markdown", "en", {"team": "hr"}
)
LONG = Document(
    "d2",
    "b.md",
    "Rules",
    (
        Block("Employees ask the office before they travel. " * 8, ("Rules", "Travel"), 1),
        Block("The office answers within three days, or it counts as agreed. " * 8, ("Rules", "Travel"), 2),
        Block("It is free.", ("Rules", "Parking"), 2),
    ),
    "text/markdown",
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


def test_every_word_of_the_document_is_in_some_passage(chunker):
    texts = " ".join(passage.text for passage in chunker.chunk(LONG))
    assert {word for block in LONG.blocks for word in block.text.split()} <= set(texts.split())


def test_passages_of_a_section_name_it_and_say_where_in_it_they_begin(chunker):
    """So that neighbours can be read as the one text that they were cut from, each sentence once."""
    passages = chunker.chunk(LONG)
    assert [passage.start for passage in passages] == [
        start for _, start in sorted((_number(passage), passage.start) for passage in passages)
    ]
    for before, after in pairwise(passages):
        if before.parent and before.parent == after.parent:
            shared = before.start + len(before.text) - after.start
            assert shared <= 0 or before.text[-shared:] == after.text[:shared]
    assert all(not passage.parent or passage.parent.startswith("d2#") for passage in passages)


def _number(passage):
    return int(passage.parent.partition("#")[2] or 0)
