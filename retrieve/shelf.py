"""Opened generations as one request sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.passages import Passage
from retrieve.duplicates import repeats
from retrieve.generation import Generation

ROW_BITS = 40
ROW_MASK = (1 << ROW_BITS) - 1


def key_of(place: int, row: int) -> int:
    """The key of a row of the generation at `place`."""
    return place << ROW_BITS | row


@dataclass(frozen=True, slots=True)
class GenerationShelf:
    """Implements Shelf over generations of one embedder, side by side; none at all is an empty shelf.

    A key is a generation's place, then 40 bits of row, so on a shelf of one generation a key is its row.
    """

    generations: tuple[Generation, ...]
    unpublished: tuple[str, ...] = ()

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

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        """Implements Shelf."""
        return tuple(int(generation.token_counts[row]) for generation, row in map(self._place, keys))

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
        places = [self._place(key) for key in keys]
        return repeats(
            np.stack([generation.hashes[row] for generation, row in places]),
            np.array([generation.signatures[row] for generation, row in places], np.uint64),
            np.stack([generation.vectors[row] for generation, row in places]),
            similarity,
        )

    def _place(self, key: int) -> tuple[Generation, int]:
        place, row = key >> ROW_BITS, key & ROW_MASK
        if not 0 <= place < len(self.generations) or row >= self.generations[place].rows:
            raise KeyError(key)
        return self.generations[place], row
