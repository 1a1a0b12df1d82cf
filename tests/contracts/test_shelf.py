"""What every shelf promises: look-ups by key, in the order asked, and duplicates named by the first of their kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.passages import Passage, Vectors
from pipeline.ports import GenerationRef, Shelf
from tests.fakes_shelf import FakeShelf, make_passage

LONG = "the tram leaves the depot at six in the morning and comes back at ten at night on every day but sunday"
PASSAGES = (
    make_passage("timetable", 0, LONG, title="Timetable", heading=("Timetable", "Trams")),
    make_passage("menu", 0, "soup and bread", title="Menu", page=2, language="en"),
    make_passage("copy", 0, "soup and bread", title="Menu"),
    make_passage("later", 0, f"{LONG} or monday", title="Timetable", heading=("Timetable", "Trams")),
    make_passage("menu", 1, "tea"),
)
# 0 and 3 say nearly the same, 1 and 2 exactly, 4 is apart from both.
ROWS = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0.995, 0.0999, 0], [0, 0, 1]], np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


def fake(folder: Path) -> Shelf:
    return FakeShelf(PASSAGES, ROWS.tolist(), generation="handbook@7")


def mapped(folder: Path) -> Shelf:
    from tokenizers import Tokenizer, models, pre_tokenizers

    from retrieve.generation import Generation
    from retrieve.generation_writing import FolderWriter
    from retrieve.segment_writing import GenerationOptions
    from retrieve.shelf import GenerationShelf

    words = sorted({word for passage in PASSAGES for word in passage.embedded_text().split()})
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    writer = FolderWriter(tokenizer, "words", GenerationOptions())
    vectors = Vectors(ROWS.shape, "float32", memoryview(ROWS).cast("B"))
    added = writer.write_segment(folder, PASSAGES, vectors)
    made_by = {"embedder": "embedder", "chunker": "chunker"}
    written = writer.write_generation(folder, "handbook", 7, **made_by, previous=None, keep=(), gone=(), added=added)
    opened = Generation.open(GenerationRef("handbook", 7, folder / "g7", written.digest), embedder="embedder")
    return GenerationShelf((opened,))


MAKERS: dict[str, Callable[[Path], Shelf]] = {"fake": fake, "generation": mapped}


@pytest.fixture(params=MAKERS)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    return MAKERS[request.param](tmp_path)


def test_passages_come_back_as_they_were_in_the_order_of_the_keys(shelf: Shelf) -> None:
    found = shelf.passages([4, 0, 1])
    assert [_plain(passage) for passage in found] == [_plain(PASSAGES[key]) for key in (4, 0, 1)]


def _plain(passage: Passage) -> dict[str, object]:
    return {name: getattr(passage, name) for name in Passage.__slots__ if name != "metadata"} | dict(passage.metadata)


def test_content_hashes_are_those_of_the_passages(shelf: Shelf) -> None:
    assert shelf.content_hashes([4, 0, 1]) == tuple(PASSAGES[key].content_hash for key in (4, 0, 1))


def test_sizes_are_those_that_ingest_counted(shelf: Shelf) -> None:
    assert shelf.tokens([1, 0]) == (PASSAGES[1].tokens, PASSAGES[0].tokens)


def test_token_ids_are_those_of_what_was_embedded(shelf: Shelf) -> None:
    ids = shelf.token_ids([1, 2, 0])
    assert [len(one) for one in ids] == [len(PASSAGES[key].embedded_text().split()) for key in (1, 2, 0)]
    assert all(one.format == "i" for one in ids)
    assert list(ids[0]) == list(ids[1])


@pytest.mark.parametrize(
    ("keys", "similarity", "firsts"),
    [
        ([0, 1, 2, 3, 4], 0.95, (0, 1, 1, 0, 4)),
        ([3, 2, 0, 1], 0.95, (0, 1, 0, 1)),
        ([0, 1, 2, 3, 4], 1.0, (0, 1, 1, 3, 4)),
        ([0, 1, 2, 3, 4], 0.9999, (0, 1, 1, 3, 4)),
        ([0, 1, 2, 3, 4], 1.5, (0, 1, 2, 3, 4)),
        ([], 0.95, ()),
    ],
)
def test_duplicates_name_the_first_that_they_repeat(
    shelf: Shelf, keys: list[int], similarity: float, firsts: tuple[int, ...]
) -> None:
    assert shelf.near_duplicates(keys, similarity) == firsts[: len(keys)]


def test_the_generation_and_the_tokenizer_are_named(shelf: Shelf) -> None:
    assert (shelf.generation, shelf.tokenizer) == ("handbook@7", "words")


@pytest.mark.parametrize("key", [5, -1, 1 << 40])
@pytest.mark.parametrize("look_up", ["passages", "content_hashes", "tokens", "token_ids"])
def test_a_key_of_another_shelf_is_an_error(shelf: Shelf, key: int, look_up: str) -> None:
    with pytest.raises(KeyError):
        getattr(shelf, look_up)([0, key])
    with pytest.raises(KeyError):
        shelf.near_duplicates([0, key], 0.9)
