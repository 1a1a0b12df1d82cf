"""Opened generations as one request sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.passages import Degraded, Passage
from retrieve.duplicates import repeats
from retrieve.generation import Generation

Kind = TypeVar("Kind", bound=np.generic)
ROW_BITS = 40
ROW_MASK = (1 << ROW_BITS) - 1


def key_of(place: int, row: int) -> int:
    """The key of a row of the generation at `place`."""
    return place << ROW_BITS | row


@dataclass(frozen=True, slots=True)
class GenerationShelf:
    """Implements Shelf over generations of one embedder, side by side; none at all is an empty shelf.

    A key is a generation's place, then 40 bits of row, so on a shelf of one generation a key is its row. `degraded`
    tells which of them are not the current ones, and why.
    """

    generations: tuple[Generation, ...]
    unpublished: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()

    @property
    def generation(self) -> str:
        """Names every generation searched, as `handbook@7+laws@3`; 0 is a collection with nothing published yet."""
        names = [generation.name for generation in self.generations]
        return "+".join([*names, *(f"{collection}@0" for collection in self.unpublished)])

    @property
    def tokenizer(self) -> str:
        """The tokenizer's fingerprint; none where generations differ, so that nobody takes the ids for its own."""
        found = {generation.manifest.tokenizer for generation in self.generations}
        return found.pop() if len(found) == 1 else ""

    def passages(self, keys: Sequence[int]) -> tuple[Passage, ...]:
        """Implements Shelf."""
        return tuple(generation.table.passage(row) for generation, row in map(self._place, keys))

    def content_hashes(self, keys: Sequence[int]) -> tuple[str, ...]:
        """Implements Shelf."""
        return tuple(generation.table.content_hash(row) for generation, row in map(self._place, keys))

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        """Implements Shelf."""
        counts: list[int] = self._gather(keys, lambda generation, rows: generation.token_counts[rows]).tolist()
        return tuple(counts)

    def token_ids(self, keys: Sequence[int]) -> tuple[memoryview, ...]:
        """Implements Shelf."""
        found: list[memoryview] = []
        for generation, row in map(self._place, keys):
            offsets = generation.token_offsets
            found.append(generation.tokens[offsets[row] : offsets[row + 1]].data)
        return tuple(found)

    def near_duplicates(self, keys: Sequence[int], similarity: float) -> tuple[int, ...]:
        """Implements Shelf; see `retrieve.duplicates.repeats`."""
        if not keys:
            return ()
        hashes = self._gather(keys, lambda generation, rows: generation.hashes[rows])
        marks = self._gather(keys, lambda generation, rows: generation.signatures[rows])

        def vectors(chosen: NDArray[np.int64]) -> NDArray[np.float32]:
            indices: list[int] = chosen.tolist()
            return self._gather([keys[index] for index in indices], lambda generation, rows: generation.vectors[rows])

        return repeats(hashes, marks, vectors, similarity)

    def _gather(
        self, keys: Sequence[int], read: Callable[[Generation, NDArray[np.int64]], NDArray[Kind]]
    ) -> NDArray[Kind]:
        """What `read` returns for rows of each generation, in the order of the keys."""
        wanted = np.array(keys, np.int64)
        rows, places = wanted & ROW_MASK, wanted >> ROW_BITS
        sizes = np.array([generation.rows for generation in self.generations], np.int64)
        if len(wanted) and not (places.min() >= 0 and places.max() < len(sizes) and (rows < sizes[places]).all()):
            raise KeyError(next(key for key in keys if not self._holds(key)))
        if len(self.generations) == 1:
            return read(self.generations[0], rows)
        parts = [(places == place).nonzero()[0] for place in range(len(sizes))]
        read_in = [read(generation, rows[part]) for generation, part in zip(self.generations, parts, strict=True)]
        together = np.concatenate(read_in)
        together[np.concatenate(parts)] = together.copy()
        return together

    def _place(self, key: int) -> tuple[Generation, int]:
        if not self._holds(key):
            raise KeyError(key)
        return self.generations[key >> ROW_BITS], key & ROW_MASK

    def _holds(self, key: int) -> bool:
        place = key >> ROW_BITS
        return 0 <= place < len(self.generations) and key & ROW_MASK < self.generations[place].rows
