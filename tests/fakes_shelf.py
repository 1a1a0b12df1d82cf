"""A shelf in memory, as obvious as it can be: keys are places in a list, duplicates are compared pair by pair."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from math import sqrt
from zlib import crc32

from pipeline.passages import (
    Caller,
    Candidate,
    Candidates,
    Groups,
    Hit,
    Leg,
    Neighbours,
    Passage,
    Query,
    Ranking,
    Sizes,
)
from pipeline.profile import Pack, Profile, Rerank
from rerank.merging import as_fused

TOKENIZER = "words"


def token_ids(text: str) -> list[int]:
    """One id per word; `p17` is 1000017, so that a test can tell which passage it is looking at."""
    return [
        1_000_000 + int(word[1:]) if word[:1] == "p" and word[1:].isdigit() else crc32(word.encode()) % 900_000 + 10
        for word in text.split()
    ]


def make_passage(document: str, ordinal: int, text: str, **fields: object) -> Passage:
    """A passage whose tokens are its words and whose hash is right."""
    bare = Passage(
        id=f"{document}:{ordinal}",
        document_id=document,
        ordinal=ordinal,
        text=text,
        tokens=len(text.split()),
        content_hash="",
        source=f"{document}.md",
        **fields,  # type: ignore[arg-type]  # whatever a test sets
    )
    digest = hashlib.blake2b(bare.embedded_text().encode(), digest_size=16).hexdigest()
    return Passage(**{name: getattr(bare, name) for name in Passage.__slots__} | {"content_hash": digest})


class FakeShelf:
    """`vectors` has one row per passage where near-duplicates matter; without it only exact ones are known."""

    def __init__(
        self,
        passages: Sequence[Passage],
        vectors: Sequence[Sequence[float]] | None = None,
        *,
        generation: str = "fake@1",
        tokenizer: str = TOKENIZER,
    ) -> None:
        self._passages = tuple(passages)
        self._vectors = vectors
        self._generation = generation
        self._tokenizer = tokenizer
        self.read: list[int] = []

    @property
    def generation(self) -> str:
        return self._generation

    @property
    def tokenizer(self) -> str:
        return self._tokenizer

    def passages(self, keys: Sequence[int]) -> tuple[Passage, ...]:
        self.read.extend(keys)
        return tuple(self._at(key) for key in keys)

    def content_hashes(self, keys: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._at(key).content_hash for key in keys)

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._at(key).tokens for key in keys)

    def token_ids(self, keys: Sequence[int]) -> tuple[memoryview, ...]:
        return tuple(memoryview(array("i", token_ids(self._at(key).embedded_text()))) for key in keys)

    def near_duplicates(self, keys: Sequence[int], similarity: float) -> tuple[int, ...]:
        firsts: list[int] = []
        for place, key in enumerate(keys):
            repeats = (
                earlier
                for earlier in range(place)
                if firsts[earlier] == earlier and self._same(keys[earlier], key, similarity)
            )
            firsts.append(next(repeats, place))
        return tuple(firsts)

    def neighbours(self, keys: Sequence[int]) -> tuple[Neighbours, ...]:
        return tuple(Neighbours(self._beside(key, -1), self._beside(key, 1)) for key in keys)

    def _beside(self, key: int, further: int) -> int | None:
        here = self._at(key)
        return next(
            (
                place
                for place, passage in enumerate(self._passages)
                if (passage.document_id, passage.ordinal) == (here.document_id, here.ordinal + further)
            ),
            None,
        )

    def _same(self, one: int, other: int, similarity: float) -> bool:
        if similarity > 1:
            return False
        if self._at(one).content_hash == self._at(other).content_hash:
            return True
        if self._vectors is None or similarity >= 1:
            return False
        a, b = self._vectors[one], self._vectors[other]
        inner = sum(x * y for x, y in zip(a, b, strict=True))
        return inner >= similarity * sqrt(sum(x * x for x in a)) * sqrt(sum(y * y for y in b))

    def _at(self, key: int) -> Passage:
        if not 0 <= key < len(self._passages):
            raise KeyError(key)
        return self._passages[key]


def shelf_of(lengths: Sequence[int]) -> FakeShelf:
    """Passages p0, p1, … of so many words, each in a document of its own."""
    return FakeShelf(
        [make_passage(f"d{number}", 0, f"p{number}" + " word" * (words - 1)) for number, words in enumerate(lengths)]
    )


def candidates_on(shelf: FakeShelf, keys: Sequence[int]) -> Candidates:
    """The keys as a fused list, best first."""
    return Candidates(
        tuple(
            Candidate(key, 1 / (60 + rank), (Hit(Leg.LEXICAL, rank, float(len(keys) - rank)),))
            for rank, key in enumerate(keys, start=1)
        ),
        shelf,
    )


def asked(text: str = "what is it", *, depth: int = 50, pack: Pack | None = None, **fields: object) -> Query:
    """A query by the default caller."""
    profile = Profile(rerank=Rerank(depth), pack=pack or Pack())
    return Query(text, Caller(), ("fake",), profile, **fields)  # type: ignore[arg-type]  # whatever a test sets


def ranked_on(shelf: FakeShelf, keys: Sequence[int]) -> tuple[Candidates, Ranking, Groups, Sizes]:
    """All that packing wants, in the given order, with true sizes and without near-duplicates."""
    candidates = candidates_on(shelf, keys)
    sizes = Sizes(dict(zip(keys, shelf.tokens(keys), strict=True)))
    return candidates, as_fused(candidates), Groups({}), sizes
