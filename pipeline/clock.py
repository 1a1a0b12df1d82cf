"""Time: what was promised for a request, what each stage was granted, how long it waited and how long it worked.

A `Clock` belongs to one request. Its laps are the single source of the `Server-Timing` header, the `timings` object,
the metrics and the evaluation report. All durations are float seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from pipeline.errors import OutOfTime


class Stage(StrEnum):
    """Where a request's time goes, in the order of the drawing in ARCHITECTURE.md."""

    ADMIT = "admit"
    PARSE = "parse"
    CACHE = "cache"
    FILTER = "filter"
    ENCODE = "encode"
    LEXICAL = "lexical"
    DENSE = "dense"
    FUSE = "fuse"
    RERANK = "rerank"
    DUPLICATES = "duplicates"
    SIZES = "sizes"
    PACK = "pack"
    PROMPT = "prompt"
    FIRST_TOKEN = "first_token"
    GENERATE = "generate"
    EXPLAIN = "explain"


AWAITED = (
    Stage.ADMIT,
    Stage.CACHE,
    Stage.FILTER,
    Stage.ENCODE,
    Stage.LEXICAL,
    Stage.DENSE,
    Stage.RERANK,
    Stage.DUPLICATES,
    Stage.SIZES,
)
"""The stages of finding that can be late and are cut; the others compute and never wait."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is promised, in seconds: `total` for the request and, at most, `shares[stage]` for an awaited stage.

    `reserve` is kept back from every awaited stage for what cannot be cut: fusing, packing, the response. A stage that
    is cut at its allowance therefore still leaves time to answer with what the others found.
    """

    total: float = inf
    shares: Mapping[Stage, float] = field(default_factory=dict[Stage, float])
    reserve: float = 0.0


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How much of what a request `asked` a cache for was there."""

    hits: int = 0
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """One finished lap. `started` counts from the clock's start; `granted` is inf where there was no bound.

    `waited` is time in line for a thread, a permit or a connection; `worked` is the rest. `cut` tells that the lap
    was ended at its allowance.
    """

    stage: Stage
    started: float
    granted: float
    waited: float
    worked: float
    cut: bool = False


class Lap:
    """A lap that is still running; whoever makes it wait in line adds to `waited`.

    Lines serve a lower `priority` first and, among equals, the earlier `deadline`, which is on the clock's scale.
    """

    __slots__ = ("caches", "deadline", "granted", "priority", "stage", "started", "waited")

    def __init__(self, stage: Stage, started: float, granted: float, priority: int = 0) -> None:
        self.stage = stage
        self.started = started
        self.granted = granted
        self.deadline = started + granted
        self.priority = priority
        self.waited = 0.0
        self.caches: dict[str, CacheUse] = {}

    def count_cache(self, name: str, hits: int, asked: int) -> None:
        """For whoever sees only the lap: added to the clock's counts when the lap ends."""
        before = self.caches.get(name, CacheUse())
        self.caches[name] = CacheUse(before.hits + hits, before.asked + asked)


class Clock:
    """Runs from the request's first byte. `now` returns seconds from any fixed point; tests pass their own.

    `priority` is the caller's: 0 is interactive, a higher one is served later.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        now: Callable[[], float] = time.perf_counter,
        started: float | None = None,
        priority: int = 0,
    ) -> None:
        self.budget = budget
        self.priority = priority
        self.now = now
        self.started = now() if started is None else started
        self._timings: list[Timing] = []
        self._caches: dict[str, CacheUse] = {}

    @property
    def timings(self) -> tuple[Timing, ...]:
        """Finished laps, in the order in which they ended."""
        return tuple(self._timings)

    @property
    def caches(self) -> Mapping[str, CacheUse]:
        """What the caches were worth to this request, by the name of each that it asked."""
        return self._caches

    def count_cache(self, name: str, hits: int, asked: int) -> None:
        """Adds to what one cache was asked for, and had."""
        before = self._caches.get(name, CacheUse())
        self._caches[name] = CacheUse(before.hits + hits, before.asked + asked)

    def elapsed(self) -> float:
        """Seconds since the request's first byte."""
        return self.now() - self.started

    def left(self) -> float:
        """Seconds until the deadline: negative once it has passed, inf without one."""
        return self.budget.total - self.elapsed()

    def allowance(self, stage: Stage) -> float:
        """What an awaited stage may use from now on: its share, or what is left before the reserve if that is less."""
        budget = self.budget
        return min(budget.shares.get(stage, inf), self.left() - budget.reserve)

    @asynccontextmanager
    async def lap(self, stage: Stage) -> AsyncGenerator[Lap, None]:
        """An awaited stage, cut short at its allowance.

        Raises OutOfTime there, and at once when nothing is left, so that no work is begun that would be late.
        """
        granted = self.allowance(stage)
        lap = Lap(stage, self.now(), granted, self.priority)
        if granted <= 0:
            self._record(lap, cut=True)
            raise OutOfTime(stage, max(granted, 0.0))
        cut = False
        bounds = asyncio.timeout(None if granted == inf else granted)
        try:
            async with bounds:
                yield lap
        except TimeoutError:
            if not bounds.expired():
                raise
            cut = True
            raise OutOfTime(stage, granted) from None
        finally:
            self._record(lap, cut=cut)

    @contextmanager
    def split(self, stage: Stage) -> Generator[Lap, None, None]:
        """A stage that computes and never waits; it cannot be cut, and the reserve is there for it."""
        lap = Lap(stage, self.now(), self.left(), self.priority)
        try:
            yield lap
        finally:
            self._record(lap, cut=False)

    def _record(self, lap: Lap, *, cut: bool) -> None:
        took = self.now() - lap.started
        waited = min(lap.waited, took)
        for name, use in lap.caches.items():
            self.count_cache(name, use.hits, use.asked)
        self._timings.append(Timing(lap.stage, lap.started - self.started, lap.granted, waited, took - waited, cut))
