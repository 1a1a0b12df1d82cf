"""What is kept of a retrieval is read back as it was, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.passages import Candidate, Hit, Leg
from retrieve.kept import read, whole, written
from retrieve.shelf import ROW_BITS, key_of

SIZES = (1000, 7)
FLOATS = st.floats(allow_nan=False)
HITS = st.lists(st.builds(Hit, st.sampled_from(Leg), st.integers(1, 100_000), FLOATS), max_size=2).map(tuple)
KEYS = st.integers(0, 999) | st.integers(0, 6).map(lambda row: key_of(1, row))
ITEMS = st.lists(st.builds(Candidate, KEYS, FLOATS, HITS), max_size=5).map(tuple)


@given(ITEMS)
def test_it_is_read_as_it_was_written(items: tuple[Candidate, ...]) -> None:
    assert read(written(items), SIZES, ROW_BITS) == items


@given(ITEMS, st.binary(max_size=100))
def test_what_was_not_written_here_is_refused_or_at_least_on_the_shelf(
    items: tuple[Candidate, ...], garbage: bytes
) -> None:
    for content in (garbage, written(items)[: len(garbage)], written(items) + garbage[:1]):
        try:
            found = read(content, SIZES, ROW_BITS)
        except ValueError:
            continue
        assert all(item.key & ((1 << ROW_BITS) - 1) < SIZES[item.key >> ROW_BITS] for item in found)


@pytest.mark.parametrize("key", [1000, -1, key_of(1, 7), key_of(2, 0)])
def test_a_key_of_another_shelf_is_refused(key: int) -> None:
    with pytest.raises(ValueError, match="on this shelf"):
        read(written([Candidate(key, 1.0, ())]), SIZES, ROW_BITS)


def test_every_leg_can_be_written() -> None:
    items = tuple(Candidate(0, 1.0, (Hit(leg, 1, 1.0),)) for leg in Leg)
    assert read(written(items), SIZES, ROW_BITS) == items


def test_an_empty_retrieval_is_whole_and_nothing_is_not() -> None:
    assert whole(written(()))
    assert not whole(b"")
