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


@dataclass(frozen=True, slots=True)
class Budget:
    """What is promised: `total` seconds for the request and, at most, `shares[stage]` for a stage."""

    total: float = inf
    shares: Mapping[Stage, float] = field(default_factory=dict[Stage, float])


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
    """A lap that is still running; whoever makes it wait in line adds to `waited`."""

    __slots__ = ("deadline", "granted", "stage", "started", "waited")

    def __init__(self, stage: Stage, started: float, granted: float) -> None:
        self.stage = stage
        self.started = started
        self.granted = granted
        self.deadline = started + granted
        self.waited = 0.0


class Clock:
    """Runs from the request's first byte. `now` returns seconds from any fixed point; tests pass their own."""

    def __init__(
        self, budget: Budget, *, now: Callable[[], float] = time.perf_counter, started: float | None = None
    ) -> None:
        self.budget = budget
        self.now = now
        self.started = now() if started is None else started
        self._timings: list[Timing] = []

    @property
    def timings(self) -> tuple[Timing, ...]:
        """Finished laps, in the order in which they ended."""
        return tuple(self._timings)

    def elapsed(self) -> float:
        """Seconds since the request's first byte."""
        return self.now() - self.started

    def left(self) -> float:
        """Seconds until the deadline: negative once it has passed, inf without one."""
        return self.budget.total - self.elapsed()

    def allowance(self, stage: Stage) -> float:
        """What the stage may use from now on: its share, or what is left if that is less."""
        return min(self.budget.shares.get(stage, inf), self.left())

    @asynccontextmanager
    async def lap(self, stage: Stage) -> AsyncGenerator[Lap, None]:
        """An awaited stage, cut short at its allowance.

        Raises OutOfTime there, and at once when nothing is left, so that no work is begun that would be late.
        """
        granted = self.allowance(stage)
        lap = Lap(stage, self.now(), granted)
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
        """A stage that computes and never waits; it cannot be cut."""
        lap = Lap(stage, self.now(), self.allowance(stage))
        try:
            yield lap
        finally:
            self._record(lap, cut=False)

    def _record(self, lap: Lap, *, cut: bool) -> None:
        took = self.now() - lap.started
        waited = min(lap.waited, took)
        self._timings.append(Timing(lap.stage, lap.started - self.started, lap.granted, waited, took - waited, cut))
