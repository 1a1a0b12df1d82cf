"""Windows of tokens: nothing lost, never too long, overlapping as asked, and no letter parted from its accents."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, pre_tokenizers

from ingest.tokens import TokenCounter
from ingest.windows import TokenChunker, WindowOptions
from pipeline.errors import Misconfigured
from pipeline.passages import Block, Document
from tests.small_tokenizer import write_tokenizer

CLUSTERS = pre_tokenizers.Split(Regex(r"\X"), "isolated")
FAMILY, FLAG = "👨\u200d👩\u200d👧", "🇩🇪"
PARTS = ["the ", "office", "s", ". ", "\n", "検索", "e\u0301", FAMILY, FLAG, "ü", "\u0903x", "a" * 30]

blocks_strategy = st.lists(
    st.builds(
        Block,
        st.lists(
            st.sampled_from(PARTS),
            min_size=1,
            max_size=80,
        ).map("".join).filter(str.strip).map(str.strip),
        st.sampled_from([(), ("A",), ("A", "B"), ("C",)]),
        st.sampled_from([None, 1, 2]),
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


def document(*blocks: Block, title: str = "") -> Document:
    return Document("d1", "a.md", title, blocks, "text/markdown")


def black(text: str) -> str:
    return "".join(text.split())


@given(blocks_strategy, st.sampled_from([(16, 0), (16, 8), (24, 5)]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_windows_keep_every_character_within_the_limit(tokenizer, blocks, sizes):
    tokens, overlap = sizes
    counter = TokenCounter.open(tokenizer)
    chunker = TokenChunker.open(tokenizer, WindowOptions(tokens, overlap))
    passages = chunker.chunk(document(*blocks))
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    covered, end = "", 0
    for passage in passages:
        assert passage.tokens == counter.count(passage.text) <= tokens
        assert passage.text == passage.text.strip() != ""
        assert passage.start + len(passage.text) > end, "each goes further than the one before"
        covered += black(passage.text[max(end - passage.start, 0) :])
        end = passage.start + len(passage.text)
    for block in blocks:
        covered = covered[covered.index(black(block.text)) :]
    assert chunker.chunk(document(*blocks)) == passages


@given(blocks_strategy)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_window_never_ends_within_what_a_reader_sees_as_one_character(tokenizer, blocks):
    (whole,) = TokenChunker.open(tokenizer, WindowOptions(8192)).chunk(document(*blocks))
    bounds = {bound for _, span in CLUSTERS.pre_tokenize_str(whole.text) for bound in span}
    for passage in TokenChunker.open(tokenizer, WindowOptions(16, 4)).chunk(document(*blocks)):
        assert {passage.start, passage.start + len(passage.text)} <= bounds


def test_windows_are_full_and_overlap_by_the_tokens_that_were_asked_for(tokenizer):
    chunker = TokenChunker.open(tokenizer, WindowOptions(20, 6))
    text = "the office answers the committee before they travel again in may " * 20
    passages = chunker.chunk(document(Block(text)))
    counting = TokenCounter.open(tokenizer)
    assert all(passage.tokens == 20 for passage in passages[:-1])
    for before, after in pairwise(passages):
        assert counting.count(before.text[after.start - before.start :]) == 6


def test_without_overlap_each_word_comes_once(tokenizer):
    words = [f"w{number}" for number in range(100)]
    passages = TokenChunker.open(tokenizer, WindowOptions(16)).chunk(document(Block(" ".join(words))))
    assert black("".join(passage.text for passage in passages)) == "".join(words)


def test_a_window_is_under_the_heading_and_on_the_page_where_it_begins_and_names_later_ones(tokenizer):
    prose = "the office answers before they travel. " * 4
    blocks = (Block(prose, ("Guide", "Leave"), 1), Block(prose, ("Guide", "Travel"), 2))
    passages = TokenChunker.open(tokenizer, WindowOptions(24)).chunk(document(*blocks, title="Guide"))
    assert (passages[0].heading, passages[0].page) == (("Leave",), 1)
    assert (passages[-1].heading, passages[-1].page) == (("Travel",), 2)
    assert any("Travel\n" in passage.text for passage in passages)
    assert passages[0].embedded_text().startswith("Guide\nLeave\nthe office")


def test_an_enormous_word_is_divided(tokenizer):
    passages = TokenChunker.open(tokenizer, WindowOptions(40)).chunk(document(Block("a" * 20_000 + " end")))
    assert black("".join(passage.text for passage in passages)) == "a" * 20_000 + "end"
    assert all(passage.tokens <= 40 and len(passage.text) <= 400 for passage in passages)


@pytest.mark.parametrize("text", ["the office answers. " * 8000, "検索拡張生成" * 10_000], ids=["spaced", "unspaced"])
def test_what_is_tokenised_at_once_is_bounded_and_nobody_can_tell(tokenizer, text):
    """Cut into stretches for memory's sake, a long text gives the windows that it gives in one."""

    class Counting(TokenCounter):
        longest = 0

        def starts(self, text):
            Counting.longest = max(Counting.longest, len(text))
            return super().starts(text)

    counter = Counting(TokenCounter.open(tokenizer).tokenizer, "small")
    passages = TokenChunker.counting(counter, WindowOptions(200)).chunk(document(Block(text)))
    assert Counting.longest <= 50_000 < len(text)
    assert black("".join(passage.text for passage in passages)) == black(text)
    assert len({len(passage.text) for passage in passages[:-1]}) <= 4


@pytest.mark.parametrize("options", [WindowOptions(8), WindowOptions(20, 11), WindowOptions(20, -1)])
def test_sizes_that_cannot_work_are_refused(tokenizer, options):
    with pytest.raises(Misconfigured, match="cannot work"):
        TokenChunker.open(tokenizer, options)


def test_the_fingerprint_changes_with_sizes_and_tokenizer(tokenizer, tmp_path):
    other = write_tokenizer(tmp_path / "tokenizer.json", vocabulary=300)
    made = [
        TokenChunker.open(tokenizer, options)
        for options in (WindowOptions(), WindowOptions(100), WindowOptions(100, 5))
    ]
    made.append(TokenChunker.open(other))
    assert len({chunker.fingerprint for chunker in made}) == 4


def test_a_tokenizer_that_keeps_every_byte_is_cut_at_its_offsets_too(tmp_path):
    """A byte-level tokenizer has several tokens within one character, and blanks inside of tokens."""
    from tokenizers import decoders, models, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["the office answers"], trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    made.save(str(tmp_path / "tokenizer.json"))
    text = f"the office {FAMILY} answers 検索 {FLAG} " * 6
    passages = TokenChunker.open(tmp_path / "tokenizer.json", WindowOptions(40, 10)).chunk(
        document(Block(text.strip()))
    )
    bounds = {bound for _, span in CLUSTERS.pre_tokenize_str(text) for bound in span}
    assert all(passage.tokens <= 40 for passage in passages)
    assert all(passage.start in bounds for passage in passages)
