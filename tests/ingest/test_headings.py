"""A section a passage, and what a collection may choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.chunkers import ChosenChunkers
from ingest.headings import HeadingChunker, HeadingOptions
from pipeline.chunking import Chunking, Cut, chunking_of
from pipeline.errors import InvalidInput
from pipeline.passages import Block, Document
from tests.small_tokenizer import write_tokenizer

SENTENCE = "Employees ask the office before they travel. "
BLOCKS = (
    Block("Yes.", ("Guide", "May I?")),
    Block("No.", ("Guide", "Must I?")),
    Block(SENTENCE * 10, ("Guide", "Travel"), 1),
    Block("Ask.", ("Other",), 2),
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


def document(*blocks: Block) -> Document:
    return Document("d1", "a.md", "Guide", blocks, "text/markdown")


def test_a_section_is_a_passage_however_short(tokenizer):
    passages = HeadingChunker.open(tokenizer, HeadingOptions(tokens=400)).chunk(document(*BLOCKS))
    assert [passage.heading for passage in passages] == [("May I?",), ("Must I?",), ("Travel",), ("Other",)]
    assert [passage.text for passage in passages] == [block.text.strip() for block in BLOCKS]
    assert [passage.parent for passage in passages] == [f"d1#{number}" for number in range(4)]


def test_a_long_section_is_cut_after_sentences_and_its_parts_name_it(tokenizer):
    passages = HeadingChunker.open(tokenizer, HeadingOptions(tokens=40, overlap=20)).chunk(document(*BLOCKS))
    parts = [passage for passage in passages if passage.heading == ("Travel",)]
    assert len(parts) > 2
    assert all(part.text.endswith(".") and part.tokens <= 40 for part in parts)
    assert {part.parent for part in parts} == {"d1#2"}
    assert parts[1].start < len(parts[0].text), "they overlap"


def test_small_sections_are_merged_only_when_asked(tokenizer):
    first, *_ = HeadingChunker.open(tokenizer, HeadingOptions(tokens=40, merge=16)).chunk(document(*BLOCKS))
    assert first.text == "May I?\nYes.\n\nMust I?\nNo."


def test_every_choice_opens_the_chunker_that_it_names(tokenizer):
    chunkers = ChosenChunkers.open(tokenizer, Chunking())
    opened = {cut: chunkers.chunker(chunking_of(cut)) for cut in Cut}
    assert [chunker.fingerprint.split("-")[0] for chunker in opened.values()] == list(Cut)
    assert chunkers.chunker(None) is opened[Cut.SENTENCES], "the default, opened once"


def test_a_chunker_is_opened_once_and_few_are_kept(tokenizer):
    chunkers = ChosenChunkers.open(tokenizer, Chunking())
    first = chunkers.chunker(chunking_of("tokens", 100))
    assert chunkers.chunker(chunking_of("tokens", 100)) is first
    for tokens in range(101, 120):
        chunkers.chunker(chunking_of("tokens", tokens))
    assert chunkers.chunker(chunking_of("tokens", 100)) is not first
    assert len(chunkers._opened) == 16


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        (("pages",), "chunker", "'tokens', 'sentences', 'headings', 'whole'"),
        (("tokens", 8), "tokens", "16 to 8192"),
        (("tokens", 9000), "tokens", "16 to 8192"),
        (("sentences", 100, 51), "overlap", "0 to 50, half"),
        (("sentences", 100, -1), "overlap", "0 to 50"),
        (("headings", 100, 0, 101), "minimum", "0 to 100"),
        (("tokens", 100, 0, 5), "minimum", "run over headings"),
        (("whole", 100), "tokens", "one passage"),
    ],
)
def test_what_cannot_be_chosen_says_what_can(asked, field, says):
    with pytest.raises(InvalidInput, match=says) as refused:
        chunking_of(*asked)
    assert refused.value.field == field


def test_sizes_that_are_not_named_are_usual_ones():
    assert chunking_of("sentences") == Chunking()
    assert chunking_of("sentences", 20).minimum == 20
    assert chunking_of("headings").minimum == 0
