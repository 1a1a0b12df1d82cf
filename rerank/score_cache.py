"""Scores that a model gave before, by query and content: they survive a publish, because no generation is in the key.

One entry holds all that is known of a query, as pairs of a passage's hash (16 bytes) and its score (float64): one
look-up, and one round trip to the second level, for as many passages as there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from struct import Struct

from pipeline.caching import Cache, CacheCounts, CacheOptions, key_of
from pipeline.clock import Lap
from pipeline.ports import SecondLevel

NAME = "rerank_scores"
PAIR = Struct("<16sd")
MOST = 1024  # pairs that one query may keep; those not scored for longest go first


class ScoreCache:
    """Implements KnownScores. Opened with `ScoreCache.open`."""

    def __init__(self, cache: Cache, model: str) -> None:
        self._cache = cache
        self._model = model

    @classmethod
    def open(cls, model: str, *, scores: int = 100_000, second: SecondLevel | None = None) -> ScoreCache:
        """Keeps about so many scores. `model` names the weights, the tokenizer, and how much of a pair is read."""
        options = CacheOptions(entries=scores, bytes=scores * 2 * PAIR.size)
        return cls(Cache(options, second=second, whole=_whole), model)

    @property
    def counts(self) -> CacheCounts:
        """What the cache has been worth so far, in scores."""
        return self._cache.counts

    @property
    def entries(self) -> int:
        """Queries of which scores are kept in this process."""
        return self._cache.entries

    @property
    def size(self) -> int:
        """Bytes that they take."""
        return self._cache.size

    async def look_up(self, query: str, hashes: Sequence[str], lap: Lap) -> Mapping[int, float]:
        """Implements KnownScores. The second level is asked about a query of which nothing is known here."""
        key = self._key(query)
        value = self._cache.get(key)
        here = value is not None
        if value is None:
            value = (await self._cache.fetch([key], lap)).get(key, b"")
        known = dict(PAIR.iter_unpack(value))
        found = {place: known[name] for place, name in enumerate(map(_short, hashes)) if name in known} if known else {}
        if here:
            self.counts.hits += len(found)
        else:
            self.counts.shared_hits += len(found)
        lap.count_cache(NAME, len(found), len(hashes))
        return found

    def keep(self, query: str, scores: Mapping[str, float]) -> None:
        """Implements KnownScores."""
        if not scores:
            return
        self.counts.computed += len(scores)
        key = self._key(query)
        fresh = {_short(name): score for name, score in scores.items() if isfinite(score)}
        before = dict(PAIR.iter_unpack(self._cache.get(key) or b""))
        pairs = [*((name, score) for name, score in before.items() if name not in fresh), *fresh.items()]
        self._cache.keep(key, b"".join(PAIR.pack(name, score) for name, score in pairs[-MOST:]))

    def _key(self, query: str) -> bytes:
        return key_of("scores", self._model, query)


def _short(content_hash: str) -> bytes:
    return blake2b(content_hash.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _whole(value: bytes) -> bool:
    return len(value) % PAIR.size == 0 and all(isfinite(score) for _, score in PAIR.iter_unpack(value))
