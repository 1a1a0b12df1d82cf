"""Remembered token ids are bounded."""

from __future__ import annotations

from rerank.passage_tokens import PassageTokens
from tests.fakes_shelf import FakeShelf, make_passage, token_ids


def test_the_passage_used_longest_ago_is_forgotten_first() -> None:
    shelf = FakeShelf([make_passage(f"d{key}", 0, f"p{key} text") for key in range(3)], tokenizer="another")
    asked: list[str] = []

    def encode(text: str) -> list[int]:
        asked.append(text)
        return token_ids(text)

    known = PassageTokens("words", encode, capacity=2)
    for keys in ([0], [1], [0], [2], [0], [1]):
        known.of(shelf, keys, 10)
    assert asked == ["p0 text", "p1 text", "p2 text", "p1 text"]


def test_no_more_ids_than_can_be_read_are_handed_out() -> None:
    shelf = FakeShelf([make_passage("d", 0, "p0" + " word" * 30)])
    (ids,) = PassageTokens("words", token_ids).of(shelf, [0], 7)
    assert list(ids) == token_ids("p0" + " word" * 6)
