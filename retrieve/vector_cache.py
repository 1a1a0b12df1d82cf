"""Vectors of queries, by embedder and exact text. They survive a publish: no document is in the key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.caching import Cache, CacheCounts, CacheOptions, key_of
from pipeline.clock import Lap
from pipeline.ports import SecondLevel

NAME = "vectors"
Vector = NDArray[np.float32]
STORED = np.dtype("<f4")


class VectorCache:
    """Opened with `VectorCache.open`. A vector from it cannot be written to."""

    def __init__(self, cache: Cache, fingerprint: str) -> None:
        self._cache = cache
        self._fingerprint = fingerprint

    @classmethod
    def open(
        cls, fingerprint: str, dimensions: int, *, entries: int = 10_000, second: SecondLevel | None = None
    ) -> VectorCache:
        """For the embedder of this fingerprint; vectors of another length are nobody's."""
        size = STORED.itemsize * dimensions
        cache = Cache(CacheOptions(entries), second=second, whole=lambda value: len(value) == size)
        return cls(cache, fingerprint)

    @property
    def counts(self) -> CacheCounts:
        """What it has been worth so far."""
        return self._cache.counts

    @property
    def entries(self) -> int:
        """Vectors kept in this process."""
        return self._cache.entries

    @property
    def size(self) -> int:
        """Bytes that they take."""
        return self._cache.size

    @property
    def shared(self) -> bool:
        """Whether there is a second level to fetch from."""
        return self._cache.shared

    def of(self, texts: Sequence[str]) -> dict[str, Vector]:
        """`[dimensions] float32` for each of the texts that this process has."""
        values = ((text, self._cache.get(self._key(text))) for text in texts)
        found = {text: _vector(value) for text, value in values if value is not None}
        self.counts.hits += len(found)
        return found

    async def fetch(self, texts: Sequence[str], lap: Lap) -> dict[str, Vector]:
        """Those of the texts that the second level has."""
        keys = {text: self._key(text) for text in texts}
        found = await self._cache.fetch(list(keys.values()), lap)
        self.counts.shared_hits += len(found)
        return {text: _vector(found[key]) for text, key in keys.items() if key in found}

    def keep(self, text: str, vector: Vector) -> None:
        """From now on it is known here, and soon in the second level."""
        self._cache.keep(self._key(text), vector.astype(STORED, copy=False).tobytes())

    def _key(self, text: str) -> bytes:
        return key_of("vector", self._fingerprint, text)


def _vector(value: bytes) -> Vector:
    return np.frombuffer(value, STORED).astype(np.float32, copy=False)
