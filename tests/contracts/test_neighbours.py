"""What every shelf promises of passages that stand beside each other in their document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.passages import Neighbours
from pipeline.ports import Shelf
from retrieve.shelf import GenerationShelf, key_of
from tests.fakes_shelf import FakeShelf, make_passage
from tests.generations import changed, opened, published

PASSAGES = [make_passage(name, ordinal, f"{name} {ordinal}") for name in "abc" for ordinal in range(3)]


def fake(folder: Path) -> Shelf:
    return FakeShelf(PASSAGES)


def mapped(folder: Path) -> Shelf:
    return GenerationShelf((opened(published(folder, PASSAGES)),))


MAKERS: dict[str, Callable[[Path], Shelf]] = {"fake": fake, "generation": mapped}


@pytest.fixture(params=MAKERS)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    return MAKERS[request.param](tmp_path)


def test_neighbours_are_those_of_the_same_document(shelf: Shelf) -> None:
    assert shelf.neighbours([4, 3, 5, 0, 8]) == (
        Neighbours(3, 5),
        Neighbours(None, 4),
        Neighbours(4, None),
        Neighbours(None, 1),
        Neighbours(7, None),
    )
    assert shelf.neighbours([]) == ()


@pytest.mark.parametrize("key", [9, -1, 1 << 40])
def test_a_key_of_another_shelf_is_an_error(shelf: Shelf, key: int) -> None:
    with pytest.raises(KeyError):
        shelf.neighbours([0, key])


def test_what_was_replaced_has_its_neighbours_in_the_delta(tmp_path: Path) -> None:
    before = published(tmp_path, PASSAGES)
    after = changed(before, [make_passage("b", ordinal, f"new {ordinal}") for ordinal in range(2)])
    found = GenerationShelf((opened(after),))
    assert found.neighbours([key_of(1, 0), key_of(0, 2)]) == (Neighbours(None, key_of(1, 1)), Neighbours(1, None))
