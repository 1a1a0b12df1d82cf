"""The default model's vectors: their length, their independence of batch-mates, and how batches are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvalidInput
from pipeline.passages import Vectors
from retrieve.encoder import OnnxEncoder, OnnxPassageEncoder, as_rows, as_vectors, batches

TEXTS = ["a tram", "the night tram leaves the depot at six", "soup", "", "ferry " * 400]


def test_vectors_are_normalised_and_in_the_order_of_the_texts(encoder: OnnxEncoder) -> None:
    rows = as_rows(OnnxPassageEncoder(encoder, threads=2).encode(TEXTS))
    assert rows.shape == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    alone = [as_rows(OnnxPassageEncoder(encoder).encode([text]))[0] for text in TEXTS]
    np.testing.assert_array_equal(rows, np.stack(alone))


def test_vectors_made_in_a_batch_are_nearly_those_made_alone(encoder: OnnxEncoder) -> None:
    alone = as_rows(OnnxPassageEncoder(encoder).encode(TEXTS[:3]))
    together = as_rows(OnnxPassageEncoder(encoder, batch_tokens=1000).encode(TEXTS[:3]))
    assert (alone * together).sum(axis=1).min() > 0.998


def test_a_text_is_cut_at_256_tokens(encoder: OnnxEncoder) -> None:
    assert len(encoder.tokenize("ferry " * 400)) == 256
    assert len(encoder.tokenize("ferry " * 10)) == 12


def test_texts_that_mean_the_same_are_closer_than_those_that_do_not(encoder: OnnxEncoder) -> None:
    rows = as_rows(
        OnnxPassageEncoder(encoder).encode(["When does the tram leave?", "departure times of trams", "soup recipes"])
    )
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_nothing_to_encode_is_no_rows(encoder: OnnxEncoder) -> None:
    vectors = OnnxPassageEncoder(encoder).encode([])
    assert vectors.shape == (0, 384)
    assert as_rows(vectors).shape == (0, 384)


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(0, 2000))
def test_batches_hold_every_text_once_sorted_by_length_within_the_bound(lengths: list[int], bound: int) -> None:
    cut = batches(lengths, bound)
    flat = [index for batch in cut for index in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[index] for index in flat] == sorted(lengths, reverse=True)
    for batch in cut:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= bound


def test_vectors_cross_a_border_unchanged() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(as_rows(as_vectors(rows)), rows)


@pytest.mark.parametrize(
    "vectors",
    [Vectors((1, 2), "float64", memoryview(bytes(16))), Vectors((2, 2), "float32", memoryview(bytes(12)))],
)
def test_vectors_of_another_kind_or_size_are_refused(vectors: Vectors) -> None:
    with pytest.raises(InvalidInput, match="float32"):
        as_rows(vectors)
