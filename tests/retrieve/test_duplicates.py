"""Signatures of texts that differ little differ in few bits, and repetitions point to originals."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieve.duplicates import AT_ONCE, FEW_BITS, repeats, signatures

SEED = 5
token_lists = st.lists(st.lists(st.integers(0, 30_000), max_size=12), min_size=1, max_size=12)


def signed(texts: list[list[int]], at_once: int = AT_ONCE) -> np.ndarray:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return signatures(np.array([token for text in texts for token in text], np.int32), offsets, at_once)


def bits_apart(a: np.ndarray, b: np.ndarray) -> int:
    return int(np.bitwise_count(np.uint64(a) ^ np.uint64(b)))


@given(token_lists)
def test_a_signature_depends_on_its_own_text_alone(texts: list[list[int]]) -> None:
    together = signed(texts)
    assert [int(signed([text])[0]) for text in texts] == together.tolist()


@settings(max_examples=30)
@given(token_lists, st.integers(1, 30))
def test_how_many_are_counted_at_once_changes_nothing(texts: list[list[int]], at_once: int) -> None:
    assert signed(texts, at_once).tolist() == signed(texts).tolist()


def test_one_word_changed_turns_few_bits_and_another_text_turns_half() -> None:
    draw = np.random.default_rng(SEED)
    for _ in range(20):
        text = draw.integers(1000, 30_000, 60).tolist()
        changed = [*text[:30], 7, *text[31:]]
        other = draw.integers(1000, 30_000, 60).tolist()
        one, near, far = signed([text, changed, other])
        assert bits_apart(one, near) <= FEW_BITS < bits_apart(one, far)


def test_rows_of_a_table_that_share_their_columns_names_and_not_their_values_are_apart() -> None:
    draw = np.random.default_rng(SEED)
    columns = draw.integers(1000, 30_000, 8).tolist()

    def rows() -> list[int]:
        return [token for _ in range(10) for token in [*columns, *draw.integers(1000, 30_000, 2).tolist()]]

    one, other = signed([rows(), rows()])
    assert bits_apart(one, other) > FEW_BITS


def test_no_passages_have_no_signatures() -> None:
    assert len(signatures(np.empty(0, np.int32), np.zeros(1, np.int64))) == 0


def test_a_chain_of_neighbours_does_not_swallow_its_end() -> None:
    # 1 is close to 0, and 2 to 1, but 2 is not close to 0: whoever keeps the originals keeps 0 and 2.
    angles = np.deg2rad([0.0, 15.0, 30.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    hashes = np.arange(6, dtype=np.uint64).reshape(3, 2)
    assert repeats(hashes, np.zeros(3, np.uint64), lambda rows: vectors[rows], 0.95) == (0, 0, 2)


def test_the_same_meaning_in_other_words_is_no_repetition() -> None:
    vectors = np.ones((2, 1), np.float32)
    marks = np.array([0, 0xFFFFFFFF], np.uint64)
    hashes = np.arange(4, dtype=np.uint64).reshape(2, 2)
    assert repeats(hashes, marks, lambda rows: vectors[rows], 0.9) == (0, 1)


def test_vectors_are_read_only_for_those_that_may_repeat() -> None:
    draw = np.random.default_rng(SEED)
    marks = draw.integers(0, 2**63, 40).astype(np.uint64)
    marks[9] = marks[3] ^ np.uint64(1)
    asked: list[list[int]] = []

    def vectors(rows: np.ndarray) -> np.ndarray:
        asked.append(rows.tolist())
        return np.ones((len(rows), 1), np.float32)

    firsts = repeats(np.arange(80, dtype=np.uint64).reshape(40, 2), marks, vectors, 0.9)
    assert asked == [[3, 9]]
    assert firsts == tuple(3 if place == 9 else place for place in range(40))
