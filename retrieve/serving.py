"""Which generations are open, and how a new one takes over while requests finish on the old one.

A new generation shares the segments that it has in common with the one before, so opening it costs what is new. The
event loop only puts one reference in the place of another: everything else, the unmapping of what nobody reads any more
included, is done on the threads of the lane `opening`. (The file is longer than a module should be: its one class keeps
what is open, what is wrong with it and whose turn it is, and these change together.)
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from math import inf
from pathlib import Path
from sys import getrefcount

from pipeline.clock import Clock, Lap, Stage
from pipeline.errors import Damaged, FleetfootError, NotFound, OutOfTime, WrongFingerprint
from pipeline.lane import Lane
from pipeline.passages import Degraded
from pipeline.ports import CurrentGeneration, EarlierGenerations, GenerationRef
from retrieve.generation import Generation
from retrieve.segment import Segment
from retrieve.shelf import GenerationShelf
from retrieve.warming import read_ahead, sample_queries

log = logging.getLogger(__name__)
Key = tuple[str, str]
UNREAD = 3  # references to a retired generation that no request has: a list's, a variable's and `getrefcount`'s own


@dataclass(frozen=True, slots=True)
class Served:
    """How one collection stands, for readiness: the generation that serves (None: nothing published, or nothing that
    could be opened) and, where the current one cannot be opened, why. No text here names a folder of this machine."""

    tenant: str
    collection: str
    generation: str | None
    problem: str = ""


class Generations:
    """Open generations by tenant and collection.

    Where the current generation is damaged an earlier one serves: the one that is open, or else the newest that is
    kept and can be opened. Where another embedder has made it none is looked for: the setting is wrong, not a file.

    The catalog is asked and files are opened in the lane `opening`, never on the event loop; `searching` is the dense
    lane, in which a generation is warmed up before it serves. The door calls `refresh` every second or so.
    """

    def __init__(
        self,
        current: CurrentGeneration,
        open_generation: Callable[[GenerationRef], Generation],
        *,
        earlier: EarlierGenerations,
        opening: Lane,
        searching: Lane,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._current = current
        self._earlier = earlier
        self._open_generation = open_generation
        self._opening = opening
        self._searching = searching
        self._now = now
        self._open: dict[Key, Generation | None] = {}
        self._problems: dict[Key, tuple[GenerationRef, Exception]] = {}
        self._retired: list[Generation] = []
        self._unusable: dict[GenerationRef, Damaged | WrongFingerprint] = {}
        self._turns: dict[Key, asyncio.Lock] = {}
        self._first_uses: dict[Key, asyncio.Task[None]] = {}

    async def shelf(self, tenant: str, collections: tuple[str, ...], clock: Clock) -> GenerationShelf:
        """The generations that serve at this moment; whoever has the shelf stays on them.

        A collection not met before is looked up once; where that takes too long the others are searched without it,
        and it is opened all the same, for whoever asks next. Raises NotFound naming known ones, Damaged or
        WrongFingerprint where its generation cannot be opened and none before it serves, and OutOfTime where no
        collection is left to search.
        """
        names = tuple(dict.fromkeys(collections))
        late = await self._meet([(tenant, name) for name in names if (tenant, name) not in self._open], clock)
        if late is not None and not any(self._open.get((tenant, name)) for name in names):
            raise late
        found = {name: self._open[tenant, name] for name in names if (tenant, name) in self._open}
        empty = tuple(name for name, generation in found.items() if generation is None)
        open_ones = tuple(generation for generation in found.values() if generation is not None)
        degraded = (
            *(_not_in_time(name) for name in names if name not in found),
            *(Degraded(Stage.ADMIT, "unpublished", f"nothing of '{name}' is published yet") for name in empty),
            *(told for generation in open_ones for told in self._told(tenant, generation)),
        )
        return GenerationShelf(open_ones, empty, degraded)

    async def _meet(self, keys: list[Key], clock: Clock) -> OutOfTime | None:
        """Looks up and opens collections not met before; returns what it was when the time for that ran out."""
        if not keys:
            return None
        try:
            async with clock.lap(Stage.ADMIT):
                for key in keys:
                    await asyncio.shield(self._first_use(key))
        except OutOfTime as late:
            return late
        return None

    def _first_use(self, key: Key) -> asyncio.Task[None]:
        """One for all who ask. It goes on when they run out of time: or each would begin anew, and none ever end."""
        task = self._first_uses.get(key)
        if task is None:
            task = asyncio.create_task(self._update(key, Lap(Stage.ADMIT, self._now(), inf)))
            self._first_uses[key] = task
            task.add_done_callback(lambda done: self._met(key, done))
        return task

    def _met(self, key: Key, done: asyncio.Task[None]) -> None:
        del self._first_uses[key]
        if not done.cancelled() and done.exception() is not None:
            log.debug("collection %s of tenant %s cannot be served: %s", key[1], key[0], done.exception())

    async def open_all(self, collections: Iterable[tuple[str, str]]) -> None:
        """Opens collections, (tenant, name) each, before anybody asks; one that cannot be opened is only reported."""
        for key in collections:
            await self._try(key)

    async def refresh(self, published: Mapping[Key, GenerationRef] | None = None) -> None:
        """Opens what was published since, warms it up and lets it take over.

        Where the caller has looked already, `published` is what serves by the catalog, and nothing is asked about a
        collection that is just so; one that was not met before is opened. A new generation that cannot be opened is
        reported, and the one before it serves on.
        """
        keys = set(self._open.keys() | self._problems.keys())
        if published is not None:
            keys = {key for key in keys | published.keys() if self._is_behind(key, published.get(key))}
        for key in keys:
            await self._try(key)
        await self._let_go()

    def _is_behind(self, key: Key, published: GenerationRef | None) -> bool:
        serving = self._open.get(key)
        return serving is None or serving.ref != published or key in self._problems

    async def look_again(self, tenant: str, collection: str) -> None:
        """What `refresh` does, at once and for one collection: whoever is told that it changed shall find it changed.

        Never raises for a generation that cannot be opened, and forgets a collection that was deleted.
        """
        await self._try((tenant, collection))

    async def found_damaged(self, ref: GenerationRef, error: Damaged) -> None:
        """What serves was read again and is not what was published: an earlier one takes over, if any can be opened.

        Without one its collection cannot be searched until it is made anew; no file that is known to be damaged serves.
        """
        self._unusable[ref] = error
        for key in [key for key, generation in self._open.items() if generation is not None and generation.ref == ref]:
            async with self._turns.setdefault(key, asyncio.Lock()):
                self._report(key, ref, error)
                serving = await self._newest_before(key, ref, Lap(Stage.ADMIT, self._now(), inf))
                self._serve(key, serving)
                if serving is None:
                    del self._open[key]

    def held(self) -> tuple[GenerationRef, ...]:
        """Every generation that some request may still read, for whoever must not remove them."""
        serving = (generation for generation in self._open.values() if generation is not None)
        return tuple(dict.fromkeys(generation.ref for generation in (*serving, *self._retired)))

    def states(self) -> tuple[Served, ...]:
        """Every collection met so far."""
        keys = sorted(self._open.keys() | self._problems.keys())
        return tuple(
            Served(*key, generation.name if (generation := self._open.get(key)) else None, self._problem(key))
            for key in keys
        )

    def samples(self) -> dict[Key, tuple[str, ...]]:
        """Queries that each open collection can answer, short and long; reads passages from disk."""
        return {key: sample_queries(generation) for key, generation in self._open.items() if generation is not None}

    async def _try(self, key: Key) -> None:
        """Updates and never raises for one collection: a deleted one is forgotten, a broken one serves as before."""
        try:
            await self._update(key, Lap(Stage.ADMIT, self._now(), inf))
        except NotFound:
            self._serve(key, None)
            del self._open[key]
            self._problems.pop(key, None)
        except (Damaged, WrongFingerprint, OSError):
            pass  # `_report` has said it, once and not twice a second
        except FleetfootError as error:
            log.warning("collection %s of tenant %s was not looked at: %s", key[1], key[0], error)

    def _problem(self, key: Key) -> str:
        _, problem = self._problems.get(key, (None, ""))
        return (problem.strerror or str(problem)) if isinstance(problem, OSError) else str(problem)

    def _told(self, tenant: str, serving: Generation) -> tuple[Degraded, ...]:
        """What a request is told that an earlier generation serves."""
        ref, problem = self._problems.get((tenant, serving.ref.collection), (None, None))
        if ref is None:
            return ()
        match problem:
            case Damaged():
                why = "is damaged"
            case WrongFingerprint():
                why = "was made with another model"
            case _:
                why = "could not be opened"
        detail = f"{serving.name} serves; {ref.collection}@{ref.number} {why}"
        return (Degraded(Stage.ADMIT, "earlier_generation", detail),)

    async def _update(self, key: Key, lap: Lap) -> None:
        """Brings one collection to its current generation; one caller at a time looks, the others find it done."""
        try:
            async with self._turns.setdefault(key, asyncio.Lock()):
                await self._bring(key, lap)
        finally:
            if key not in self._open and key not in self._problems:
                self._turns.pop(key, None)  # a name that does not exist leaves nothing behind

    async def _bring(self, key: Key, lap: Lap) -> None:
        ref = await self._opening.run(lap, lambda _: self._look_up(key))
        serving = self._open.get(key)
        if key in self._open and ref == (serving.ref if serving else None):
            self._problems.pop(key, None)
            return
        if ref is None:
            self._serve(key, None)
            return
        try:
            self._serve(key, await self._opened(ref, serving, lap))
        except (Damaged, WrongFingerprint, OSError) as error:
            self._report(key, ref, error)
            if serving is None and isinstance(error, Damaged):
                serving = await self._newest_before(key, ref, lap)
            if serving is None:
                self._open.pop(key, None)
                raise
            self._serve(key, serving)
        else:
            self._problems.pop(key, None)

    def _serve(self, key: Key, generation: Generation | None) -> None:
        """From now on this one is given to requests; the one before is kept until the last of its requests is done."""
        before = self._open.get(key)
        self._open[key] = generation
        if before is not None and before is not generation:
            self._retired.append(before)

    async def _let_go(self) -> None:
        """Forgets retired generations that no request has any more, on a thread: to unmap gigabytes takes a while."""
        if not self._retired:
            return
        try:
            await self._opening.run(Lap(Stage.ADMIT, self._now(), inf), lambda _: forget_unread(self._retired))
        except FleetfootError as error:
            log.debug("retired generations stay open for now: %s", error)

    async def _opened(self, ref: GenerationRef, serving: Generation | None, lap: Lap) -> Generation:
        """Opens it and warms up those of its segments that the one in its place does not have."""
        warm = {segment.folder for segment in serving.segments} if serving else set[Path]()
        generation = await self._opening.run(lap, lambda _: self._warmed(ref, warm))
        new = [segment for segment in generation.segments if segment.folder not in warm]
        if new:
            await self._searching.run(lap, lambda _: warm_up(new))
        return generation

    async def _newest_before(self, key: Key, damaged: GenerationRef, lap: Lap) -> Generation | None:
        """The newest earlier generation that can be opened; what was current later than it is given up."""
        kept = await self._opening.run(lap, lambda _: self._earlier.earlier(*key, damaged.number))
        for ref in kept:
            try:
                serving = await self._opened(ref, None, lap)
            except (Damaged, WrongFingerprint, OSError) as error:
                log.debug("%s@%s of tenant %s cannot serve either: %s", key[1], ref.number, key[0], error)
            else:
                log.warning("%s@%s of tenant %s serves in its place", key[1], ref.number, key[0])
                return serving
        return None

    def _report(self, key: Key, ref: GenerationRef, error: Exception) -> None:
        told, _ = self._problems.get(key, (None, None))
        self._problems[key] = ref, error
        if told != ref:
            log.warning("%s@%s of tenant %s (%s) cannot be opened: %s", key[1], ref.number, key[0], ref.folder, error)

    def _look_up(self, key: Key) -> GenerationRef | None:
        try:
            return self._current.current(*key)
        except NotFound as error:
            known = error.known or tuple(name for tenant, name in self._open if tenant == key[0])
            raise NotFound("collection", key[1], known) from None

    def _warmed(self, ref: GenerationRef, warm: Set[Path]) -> Generation:
        """Opens it, unless it was found unusable before: files never change, so they are not read again."""
        if (known := self._unusable.get(ref)) is not None:
            raise type(known)(str(known))
        try:
            generation = self._open_generation(ref)
        except (Damaged, WrongFingerprint) as error:
            self._unusable[ref] = type(error)(str(error))
            raise
        for segment in generation.segments:
            if segment.folder not in warm:
                read_ahead(segment.folder)
                segment.lexical.warm_up()
        return generation


def warm_up(segments: Iterable[Segment]) -> None:
    """Touches what the first search of each needs."""
    for segment in segments:
        segment.dense.warm_up()


def forget_unread(retired: list[Generation]) -> None:
    """Takes those out of the list that nobody else refers to; their files are unmapped by this thread.

    A shelf keeps its generations, a request its shelf. From the end, as others may append meanwhile.
    """
    for place in range(len(retired) - 1, -1, -1):
        generation = retired[place]
        if getrefcount(generation) <= UNREAD:
            del retired[place]


def _not_in_time(name: str) -> Degraded:
    return Degraded(Stage.ADMIT, "out_of_time", f"'{name}' was not opened in time, and not searched")
