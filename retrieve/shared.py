"""Equal retrievals at the same time are done once, by the first who comes; the others wait for it, but not long."""

from __future__ import annotations

import asyncio

from pipeline.caching import CacheCounts
from pipeline.clock import Clock, Stage
from pipeline.errors import OutOfTime
from pipeline.passages import Candidates, Query
from pipeline.ports import Retriever
from retrieve.cached import NAME, Key, Shelves
from retrieve.shelf import GenerationShelf


class Lead:
    """A search that others may follow; `told` is made by the first of them, as most searches have none."""

    __slots__ = ("told",)

    def __init__(self) -> None:
        self.told: asyncio.Future[Candidates | None] | None = None

    async def ended(self) -> bool:
        """Waits until it has; False when the leader has left."""
        if self.told is None:
            self.told = asyncio.get_running_loop().create_future()
        await asyncio.wait((self.told,))
        return not self.told.cancelled()


class SharedRetriever:
    """Implements Retriever around another. Belongs to one event loop.

    Who comes first leads: searches as ever, within its own deadline. Who comes with an equal query meanwhile follows:
    waits within its own lap `cache`, and takes what the leader found if nothing was given up in it. Otherwise it
    searches for itself, as it does when that lap is over, because what a leader in a hurry gave up need not be given
    up by one with more time, and a follower in a hurry must be left the time for a leg of its own. (Its text rides
    along in the encoder all the same.) When the leader leaves, the next one leads.
    """

    def __init__(self, retriever: Retriever, shelves: Shelves, key: Key, counts: CacheCounts) -> None:
        self._retriever = retriever
        self._shelves = shelves
        self._key = key
        self._counts = counts
        self._leads: dict[bytes, Lead] = {}

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        """Implements Retriever."""
        shelf = await self._shelves.shelf(query.caller.tenant, query.collections, clock)
        key = self._key(query, shelf)
        if key in self._leads:
            found = await self._followed(key, clock)
            if found is not None:
                self._counts.joined += 1
                clock.count_cache(NAME, 0, 1)
                return Candidates(found.items, shelf, shelf.degraded)
        if key in self._leads:
            return await self._retriever.retrieve(query, clock)
        return await self._led(query, key, clock)

    async def _led(self, query: Query, key: bytes, clock: Clock) -> Candidates:
        lead = self._leads[key] = Lead()
        found: Candidates | None = None
        try:
            found = await self._retriever.retrieve(query, clock)
            return found
        except asyncio.CancelledError:
            if lead.told is not None:
                lead.told.cancel()
            raise
        finally:
            del self._leads[key]
            if lead.told is not None and not lead.told.done():
                lead.told.set_result(found if self._can_be_shared(found, query, key) else None)

    def _can_be_shared(self, found: Candidates | None, query: Query, key: bytes) -> bool:
        """Whether it is complete, and of the generations that the others asked for."""
        if found is None or found.degraded or not isinstance(found.shelf, GenerationShelf):
            return False
        return self._key(query, found.shelf) == key

    async def _followed(self, key: bytes, clock: Clock) -> Candidates | None:
        """What a leader found, None when it is better to search for oneself; the time that it took was waiting."""
        began = clock.now()
        try:
            async with clock.lap(Stage.CACHE) as lap:
                try:
                    while lead := self._leads.get(key):
                        if await lead.ended() and lead.told is not None:
                            return lead.told.result()
                finally:
                    lap.waited += clock.now() - began
        except OutOfTime:
            return None
        return None
