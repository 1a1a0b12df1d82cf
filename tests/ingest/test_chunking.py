"""Passages: what they promise to keep, and how large they may be."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import blake2b, sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ingest.chunking import ChunkOptions, SentenceChunker
from ingest.whole import WholeChunker, WholeOptions
from pipeline.errors import Misconfigured
from pipeline.passages import Block, Document, Passage
from tests.small_tokenizer import write_tokenizer

PROSE = (
    "The committee decided that the archive opens again in May. Employees ask the office before they travel. "
    "The office answers within three days, or it counts as agreed. "
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture(scope="module")
def chunker(tokenizer) -> SentenceChunker:
    return SentenceChunker.open(tokenizer, ChunkOptions(tokens=40, minimum=8))


def document(*blocks: Block, title: str = "") -> Document:
    return Document("d1", "folder/a.md", title, blocks, "text/markdown", "en", {"team": "hr"})


def black(text: str) -> str:
    """Its characters that are no blanks."""
    return "".join(text.split())


blocks_strategy = st.lists(
    st.builds(
        Block,
        st.text(st.sampled_from("abc ab. \n検索ü。!é\u0301😀word"), min_size=1, max_size=400).filter(black),
        st.sampled_from([(), ("A",), ("A", "B"), ("A", "C"), ("D",), ("D", "E", "F")]),
        st.sampled_from([None, 1, 2]),
    ),
    max_size=8,
)


@given(blocks_strategy)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_passages_keep_every_character_within_the_limit_in_order(chunker, tokenizer, blocks):
    counting = Tokenizer.from_file(str(tokenizer))
    counting.no_truncation()
    counting.no_padding()
    passages = chunker.chunk(document(*blocks))
    rest = black("".join(passage.text for passage in passages))
    for character in black("".join(block.text for block in blocks)):
        rest = rest[rest.index(character) + 1 :]
    assert [passage.id for passage in passages] == [f"d1:{n}" for n in range(len(passages))]
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    for passage in passages:
        assert 0 <= passage.tokens == len(counting.encode(passage.text, add_special_tokens=False)) <= 40
        assert passage.text == passage.text.strip() != ""
        assert len(passage.text) <= 400
    assert chunker.chunk(document(*blocks)) == passages


@given(blocks_strategy)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_without_tiny_sections_no_passage_spans_two_headings(tokenizer, blocks):
    strict = SentenceChunker.open(tokenizer, ChunkOptions(tokens=40, minimum=0))
    by_heading: dict[tuple[str, ...], str] = {}
    for block in blocks:
        by_heading[block.heading] = by_heading.get(block.heading, "") + black(block.text)
    for passage in strict.chunk(document(*blocks)):
        assert black(passage.text) in by_heading[passage.heading]


def test_a_long_text_is_cut_after_sentences(chunker):
    passages = chunker.chunk(document(Block(PROSE * 20)))
    assert len(passages) > 10
    assert all(passage.text.endswith((".", ",")) for passage in passages)
    assert sum(passage.text.endswith(".") for passage in passages) == len(passages)


def test_ideographs_are_cut_after_sentences_too(chunker):
    passages = chunker.chunk(document(Block("検索拡張生成は文書から答える。検索は速い。" * 20)))
    assert len(passages) > 5
    assert all(passage.text.endswith("。") for passage in passages)


@pytest.mark.parametrize("overlap", [15, 20])
def test_an_overlap_is_of_whole_sentences_as_many_as_fit(tokenizer, overlap):
    overlapping = SentenceChunker.open(tokenizer, ChunkOptions(tokens=40, overlap=overlap))
    counter = overlapping._counter
    sentences = [f"It is {'word ' * (number % 4)}of {number}." for number in range(60)]
    text = " ".join(sentences)
    passages = overlapping.chunk(document(Block(text)))
    begins = {text.index(sentence) for sentence in sentences}
    assert len(passages) > 8
    for before, after in pairwise(passages):
        shared = before.text[after.start - before.start :]
        assert after.start in begins
        assert before.text.endswith(".")
        assert 0 < counter.count(shared) <= overlap
        assert after.text.startswith(shared)
        one_more = text.rfind(". ", 0, after.start - 2) + 2 if after.start - 2 > before.start else before.start
        assert counter.count(text[one_more : before.start + len(before.text)]) > overlap


def test_an_overlap_repeats_the_end_of_the_passage_before(tokenizer):
    overlapping = SentenceChunker.open(tokenizer, ChunkOptions(tokens=40, overlap=20))
    first, second, *_ = overlapping.chunk(document(Block("One two. Three four. " * 40)))
    shared = next(size for size in range(len(first.text), 0, -1) if second.text.startswith(first.text[-size:]))
    assert shared > 5


def test_tiny_sections_of_one_chapter_share_a_passage_that_names_each(chunker):
    blocks = (Block("Yes.", ("FAQ", "May I?")), Block("No.", ("FAQ", "Must I?")), Block("Ask.", ("Other",)))
    first, second = chunker.chunk(document(*blocks))
    assert (first.text, first.heading) == ("May I?\nYes.\n\nMust I?\nNo.", ("FAQ",))
    assert (second.text, second.heading) == ("Ask.", ("Other",))


def test_a_few_words_before_the_first_heading_join_its_section(chunker):
    (passage,) = chunker.chunk(document(Block("The office"), Block("Ask.", ("May",), 1)))
    assert (passage.text, passage.heading) == ("The office\n\nMay\nAsk.", ())


def test_sections_of_some_size_stay_apart(chunker):
    passages = chunker.chunk(document(Block(PROSE, ("A", "B")), Block(PROSE, ("A", "C"))))
    assert {passage.heading for passage in passages} == {("A", "B"), ("A", "C")}


def test_a_passage_is_on_the_page_where_it_begins(chunker):
    blocks = tuple(Block(f"{PROSE}{PROSE}", ("A",), page) for page in (3, 4, 5))
    pages = [passage.page for passage in chunker.chunk(document(*blocks))]
    assert pages == sorted(pages)
    assert set(pages) == {3, 4, 5}
    assert chunker.chunk(document(Block("Short.", (), 7), Block("Shorter.", (), 8)))[0].page == 7


def test_a_page_is_right_behind_a_heading_that_joining_put_in(chunker):
    blocks = (Block("Yes.", ("A", "B"), 1), Block("No.", ("A", "C"), 2), Block(PROSE * 3, ("A", "C"), 3))
    assert chunker.chunk(document(*blocks))[-1].page == 3


def test_a_passage_carries_what_its_document_knows(chunker):
    (passage,) = chunker.chunk(document(Block("Text.", ("Guide", "Leave"), 2), title="Guide"))
    embedded = "Guide\nLeave\nText."
    assert passage.embedded_text() == embedded
    assert passage == Passage(
        id="d1:0",
        document_id="d1",
        ordinal=0,
        text="Text.",
        tokens=passage.tokens,
        content_hash=blake2b(embedded.encode(), digest_size=16).hexdigest(),
        source="folder/a.md",
        title="Guide",
        heading=("Leave",),
        page=2,
        language="en",
        metadata={"team": "hr"},
        parent="d1#0",
        start=0,
    )


@pytest.mark.parametrize(
    ("title", "heading", "text", "embedded"),
    [
        ("", (), "Text", "Text"),
        ("T", (), "Text", "T\nText"),
        ("Text", (), "Text", "Text"),
        ("Guide", (), "Guide\nText", "Guide\nText"),
        ("Guide", ("A", "B"), "Text", "Guide\nA > B\nText"),
        ("Guide", ("Guide", "B"), "Text", "Guide\nB\nText"),
        ("", ("A", "B"), "A > B\nText", "A > B\nText"),
    ],
)
def test_nothing_is_embedded_twice(chunker, title, heading, text, embedded):
    (passage,) = chunker.chunk(document(Block("x")))
    assert replace(passage, title=title, heading=heading, text=text).embedded_text() == embedded


def test_equal_content_in_two_documents_has_one_hash(chunker):
    first = chunker.chunk(document(Block(PROSE), title="T"))
    other = replace(document(Block(PROSE), title="T"), id="d2", name="b.md", metadata={})
    assert [p.content_hash for p in first] == [p.content_hash for p in chunker.chunk(other)]
    assert [p.content_hash for p in first] != [p.content_hash for p in chunker.chunk(document(Block(PROSE), title="U"))]


def test_an_enormous_word_is_bounded_by_characters(chunker):
    passages = chunker.chunk(document(Block("a" * 20_000 + " " + "b" * 150 + " end")))
    assert all(len(passage.text) <= 400 and passage.tokens <= 40 for passage in passages)
    assert black("".join(passage.text for passage in passages)) == "a" * 20_000 + "b" * 150 + "end"


def test_time_grows_with_the_text_and_not_with_its_square(chunker, tokenizer):
    """Counted in what the splitter is shown, not in seconds."""

    class Counting:
        shown = 0

        def __init__(self, splitter):
            self.splitter = splitter

        def chunk_indices(self, text):
            Counting.shown += len(text)
            return self.splitter.chunk_indices(text)

    text = "検索拡張生成" * 3000
    counted = SentenceChunker(chunker._counter, Counting(chunker._splitter), chunker.options)
    counted.chunk(document(Block(text)))
    assert Counting.shown < 2 * len(text)


def test_the_fingerprint_changes_with_everything_that_could_change_passages(tokenizer, tmp_path):
    other = write_tokenizer(tmp_path / "tokenizer.json", vocabulary=300)
    options = (ChunkOptions(), ChunkOptions(tokens=100), ChunkOptions(overlap=10), ChunkOptions(minimum=0))
    fingerprints = [SentenceChunker.open(tokenizer, option).fingerprint for option in options]
    fingerprints += [SentenceChunker.open(other).fingerprint, WholeChunker.open(other).fingerprint]
    fingerprints += [WholeChunker.open(other, WholeOptions(tokens=128)).fingerprint]
    assert len(set(fingerprints)) == len(fingerprints)
    assert SentenceChunker.open(tokenizer).fingerprint == fingerprints[0]
    assert sha256(tokenizer.read_bytes()).hexdigest()[:16] in fingerprints[0]


def test_another_process_makes_the_same_passages(chunker, tokenizer):
    program = (
        "import sys, json; from pathlib import Path; from ingest.chunking import *; from pipeline.passages import *;"
        "c = SentenceChunker.open(Path(sys.argv[1]), ChunkOptions(tokens=40, minimum=8));"
        "d = Document('d1', 'folder/a.md', '', (Block(sys.argv[2]),), 'text/markdown');"
        "print(json.dumps([(p.id, p.content_hash) for p in c.chunk(d)]))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, str(tokenizer), PROSE * 3],
        check=True, capture_output=True, cwd=Path(__file__).parents[2], env={"PYTHONHASHSEED": "1"},
    ).stdout  # fmt: skip
    here = [[p.id, p.content_hash] for p in chunker.chunk(document(Block(PROSE * 3)))]
    assert json.loads(printed) == here


@pytest.mark.parametrize("options", [ChunkOptions(tokens=8), ChunkOptions(overlap=101), ChunkOptions(overlap=-1)])
def test_options_that_cannot_work_are_refused(tokenizer, options):
    with pytest.raises(Misconfigured, match="cannot work"):
        SentenceChunker.open(tokenizer, options)


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    for path in (tmp_path / "tokenizer.json", tmp_path / "absent.json"):
        with pytest.raises(Misconfigured, match=path.name):
            SentenceChunker.open(path)


def test_a_whole_document_is_one_passage_cut_at_its_end(tokenizer):
    whole = WholeChunker.open(tokenizer, WholeOptions(tokens=30))
    (passage,) = whole.chunk(document(Block(PROSE, ("A",)), Block(PROSE, ("B",)), title="The archive"))
    counting = Tokenizer.from_file(str(tokenizer))
    counting.no_truncation()
    counting.no_padding()
    both = counting.encode(passage.embedded_text(), add_special_tokens=False)
    assert 25 <= len(both) <= 30
    assert PROSE.startswith(passage.text)
    assert (passage.id, passage.heading) == ("d1:0", ())


def test_a_whole_document_can_be_kept_uncut(tokenizer):
    (passage,) = WholeChunker.open(tokenizer, WholeOptions(tokens=None)).chunk(document(Block(PROSE), Block(PROSE)))
    assert passage.text == f"{PROSE}\n\n{PROSE}".rstrip()
