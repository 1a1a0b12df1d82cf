"""Retrievals that were done before, on these very generations, are not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pipeline.caching import Cache, CacheCounts, CacheOptions, key_of
from pipeline.clock import Clock, Stage
from pipeline.errors import OutOfTime
from pipeline.filters import canonical
from pipeline.passages import Candidate, Candidates, Query
from pipeline.ports import Retriever, SecondLevel
from retrieve.kept import read, whole, written
from retrieve.shelf import ROW_BITS, GenerationShelf

NAME = "retrievals"
RECENT = 256  # retrievals held as objects too: making 350 of them takes .4 ms, more than all else that a hit does
SIZE = 8192  # bytes that are planned for a retrieval: 100 candidates of each leg take 5,000, if no two are the same
Key = Callable[[Query, GenerationShelf], bytes]
Serving = frozenset[tuple[str, str]]


class Shelves(Protocol):
    """Knows what serves; `retrieve.serving.Generations` is one."""

    async def shelf(self, tenant: str, collections: tuple[str, ...], clock: Clock) -> GenerationShelf: ...


def retrieval_key(made_by: str) -> Key:
    """What names a retrieval: all that its candidates depend on, and nothing else of the query.

    The generations by number and digest (which names their segments and tombstones), the text and the asides, the
    filter, every field of `Search`, and whose documents may be seen by whom (tenant and labels). `made_by` names what
    is the same for all requests of an instance and decides what is found: instances share a second level only as far
    as they would find the same.
    """

    def key(query: Query, shelf: GenerationShelf) -> bytes:
        generations = [(each.ref.collection, each.ref.number, each.ref.digest) for each in shelf.generations]
        scope = (query.caller.tenant, sorted(query.caller.labels))
        # Representations of frozen values of plain ones: exact, and a field that is added to Search is in it at once.
        asked = canonical(query.filter) if query.filter is not None else ""
        parts = (scope, generations, shelf.unpublished, query.asides, asked, query.profile.search)
        return key_of("retrieval", made_by, query.text, *map(repr, parts))

    return key


class CachedRetriever:
    """Implements Retriever around another.

    Kept are keys, scores and hits of what was complete; a result that gave something up is true of its moment only. A
    publish gives what it changed another key and leaves alone what it did not. A look has a lap of its own, `cache`,
    so that a hit shows its own time and not that of the search it saved.
    """

    def __init__(self, retriever: Retriever, shelves: Shelves, cache: Cache, key: Key) -> None:
        self._retriever = retriever
        self._shelves = shelves
        self._cache = cache
        self._key = key
        self._recent: dict[bytes, tuple[Candidate, ...]] = {}

    @classmethod
    def open(
        cls,
        retriever: Retriever,
        shelves: Shelves,
        key: Key,
        *,
        entries: int = 2_000,
        second: SecondLevel | None = None,
    ) -> CachedRetriever:
        """Keeps so many retrievals, and as many bytes as they take at a usual depth."""
        options = CacheOptions(entries, bytes=entries * SIZE)
        return cls(retriever, shelves, Cache(options, second=second, whole=whole), key)

    @property
    def counts(self) -> CacheCounts:
        """What the cache has been worth so far."""
        return self._cache.counts

    @property
    def entries(self) -> int:
        """Retrievals kept in this process."""
        return self._cache.entries

    @property
    def size(self) -> int:
        """Bytes that they take."""
        return self._cache.size

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        """Implements Retriever."""
        shelf = await self._shelves.shelf(query.caller.tenant, query.collections, clock)
        if not shelf.generations:
            return await self._retriever.retrieve(query, clock)
        known = await self._look_up(query, shelf, clock)
        clock.count_cache(NAME, 0 if known is None else 1, 1)
        if known is not None:
            return Candidates(known, shelf, shelf.degraded)
        self.counts.computed += 1
        found = await self._retriever.retrieve(query, clock)
        if not found.degraded and isinstance(found.shelf, GenerationShelf):
            # By the shelf that it was found on: a new generation may have taken over since.
            key = self._key(query, found.shelf)
            self._cache.keep(key, written(found.items), _serving(query, found.shelf))
            self._remember(key, found.items)
        return found

    def forget_retired(self, serving: Iterable[tuple[str, str]]) -> int:
        """Lets go of retrievals on generations that are not among these, (tenant, name) each; says how many."""
        kept = frozenset(serving)
        gone = self._cache.forget(lambda about: isinstance(about, frozenset) and not about <= kept)
        if gone:
            self._recent = {key: items for key, items in self._recent.items() if key in self._cache}
        return gone

    async def _look_up(self, query: Query, shelf: GenerationShelf, clock: Clock) -> tuple[Candidate, ...] | None:
        """Gives up the look when it is late: the search itself then has what is left."""
        try:
            async with clock.lap(Stage.CACHE) as lap:
                key = self._key(query, shelf)
                value = self._cache.get(key)
                if value is not None:
                    known = self._recent.get(key) or _read(value, shelf)
                    self._remember(key, known)
                    self.counts.hits += 1
                    return known
                fetched = await self._cache.fetch([key], lap, _serving(query, shelf))
                if key not in fetched:
                    return None
                known = _read(fetched[key], shelf)
                self.counts.shared_hits += 1
                return known
        except (OutOfTime, ValueError):
            return None

    def _remember(self, key: bytes, items: tuple[Candidate, ...]) -> None:
        self._recent.pop(key, None)
        self._recent[key] = items
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]


def _read(value: bytes, shelf: GenerationShelf) -> tuple[Candidate, ...]:
    return read(value, [segment.rows for segment in shelf.segments], ROW_BITS)


def _serving(query: Query, shelf: GenerationShelf) -> Serving:
    return frozenset((query.caller.tenant, generation.name) for generation in shelf.generations)
