"""Exact caches: bytes by key, bounded, counted, and in agreement with what computing again would give.

A key is a digest of everything that the value depends on, so nothing is ever emptied to stay true: what has changed has
another key, and what nobody asks for any more falls off the end. Values are bytes: small, the same in both levels, and
invisible to the garbage collector, however many are kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from typing import Protocol

from pipeline.clock import Lap
from pipeline.ports import SecondLevel

PART = 0.1
OVERHEAD = 230  # bytes that an entry takes in this process beside its value: key, headers, its place in the order


def key_of(kind: str, *parts: str | bytes) -> bytes:
    """20 bytes that name these very parts, in this order, of this kind; the parts cannot be read from them.

    Each part is preceded by its length, so that `"ab", "c"` and `"a", "bc"` are two keys. A list that may be of any
    length is preceded by how many it has.
    """
    digest = blake2b(digest_size=20)
    for part in (kind, *parts):
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """At most so many entries and so many bytes, keys and book-keeping included; None is no bound."""

    entries: int | None = 10_000
    bytes: int | None = None


@dataclass(slots=True)
class CacheCounts:
    """What was asked for since the start, each once: found here, found in the second level, got from an equal request
    under way, or computed."""

    hits: int = 0
    shared_hits: int = 0
    joined: int = 0
    computed: int = 0

    def by_outcome(self) -> dict[str, float]:
        """For a tally."""
        return {
            "hit": self.hits,
            "shared_hit": self.shared_hits,
            "joined": self.joined,
            "computed": self.computed,
        }


class Counted(Protocol):
    """What every cache can tell of itself: `entries` and `size` (in bytes) are what this process keeps."""

    @property
    def counts(self) -> CacheCounts: ...
    @property
    def entries(self) -> int: ...
    @property
    def size(self) -> int: ...


class Cache:
    """Belongs to one event loop. What was not asked for longest goes first.

    `whole` tells whether a value from the second level has the right shape; one that has not is as good as absent.
    Whoever owns the cache counts, because only the owner knows what became of a question.
    """

    def __init__(
        self,
        options: CacheOptions,
        *,
        second: SecondLevel | None = None,
        whole: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        self.options = options
        self.counts = CacheCounts()
        self._second = second
        self._whole = whole
        self._kept: OrderedDict[bytes, tuple[bytes, Hashable]] = OrderedDict()
        self._about: dict[Hashable, set[bytes]] = {}
        self._bytes = 0

    @property
    def entries(self) -> int:
        """How many values are kept in this process."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes that they take, to within some tens each."""
        return self._bytes

    @property
    def shared(self) -> bool:
        """Whether there is a second level to ask."""
        return self._second is not None

    def __contains__(self, key: object) -> bool:
        """Whether this process has it; asking so keeps nothing alive."""
        return key in self._kept

    def get(self, key: bytes) -> bytes | None:
        """The value that this process has, which is thereby asked for."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        self._kept.move_to_end(key)
        return entry[0]

    async def fetch(self, keys: Sequence[bytes], lap: Lap, about: Hashable = None) -> dict[bytes, bytes]:
        """What the second level has of these keys; kept here from now on.

        It takes `PART` of the lap at most, so that somebody in a hurry has time left to compute.
        """
        if self._second is None or not keys:
            return {}
        bounds = asyncio.timeout(None if lap.granted == inf else PART * lap.granted)
        try:
            async with bounds:
                values = await self._second.get_many(keys)
        except TimeoutError:
            return {}
        found = {
            key: value for key, value in zip(keys, values, strict=True) if value is not None and self._whole(value)
        }
        for key, value in found.items():
            self._put(key, value, about)
        return found

    def keep(self, key: bytes, value: bytes, about: Hashable = None) -> None:
        """Keeps a value here and hands it to the second level; `about` is what `forget` may ask for later."""
        self._put(key, value, about)
        if self._second is not None:
            self._second.put_many({key: value})

    def forget(self, unwanted: Callable[[Hashable], bool]) -> int:
        """Lets go of what nobody can ask for any more, and says how much; only ever to save memory."""
        gone = [key for about, keys in self._about.items() if unwanted(about) for key in keys]
        for key in gone:
            self._drop(key)
        return len(gone)

    def _put(self, key: bytes, value: bytes, about: Hashable) -> None:
        if key in self._kept:
            self._drop(key)
        if self.options.bytes is not None and len(value) + OVERHEAD > self.options.bytes:
            return  # all others would have to go, and it would go with them
        self._kept[key] = value, about
        self._about.setdefault(about, set()).add(key)
        self._bytes += len(value) + OVERHEAD
        while self._over():
            self._drop(next(iter(self._kept)))

    def _over(self) -> bool:
        entries, size = self.options.entries, self.options.bytes
        return (entries is not None and len(self._kept) > entries) or (size is not None and self._bytes > size)

    def _drop(self, key: bytes) -> None:
        value, about = self._kept.pop(key)
        self._bytes -= len(value) + OVERHEAD
        keys = self._about[about]
        keys.discard(key)
        if not keys:
            del self._about[about]
