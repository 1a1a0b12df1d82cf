"""Spending less before refusing: the service's load, and what a request gives up under it.

The load is one number for each kind of traffic: the part of its deadline that a request would spend waiting, in the
lines before it and for the event loop. Its newest value and a smoothed one count together, so that one burst gives up
nothing (it has to last) and nothing is given up once the lines are short (it has to be there still): the smaller of
the smoothed value and twice the newest. From it follow steps, each told in the answer and counted:

    half_rerank, quarter_rerank, no_rerank      fewer candidates are reranked, then none
    lexical_only                                the dense leg, and with it the encoder, is left to others
    refused                                     503 before any work is begun, with the time after which to come back

Batch traffic meets each of them at half the load, and is behind all interactive traffic in each line besides.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from math import exp, inf
from typing import Protocol

from pipeline.clock import Stage
from pipeline.errors import Overloaded
from pipeline.expecting import Typical
from pipeline.health import Figure, Tally
from pipeline.passages import Degraded, Leg
from pipeline.profile import Profile

INTERACTIVE, BATCH = 0, 1  # priorities: from BATCH on a caller is batch traffic


class Step(IntEnum):
    """How far a request is eased, from nothing at all to refusal."""

    FULL = 0
    HALF_RERANK = 1
    QUARTER_RERANK = 2
    NO_RERANK = 3
    LEXICAL_ONLY = 4
    REFUSED = 5


class Foresees(Protocol):
    """A line that knows how long a newcomer would wait; lanes do."""

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds in line, behind whoever has a lower priority or an earlier deadline."""
        ...


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`inside` requests are answered at once; batch callers may fill the part `batch` of it.

    `steps` are the loads from which the steps after FULL are taken, and for batch callers that same part of them.
    A rising load is believed within `rise` seconds, a falling one within `fall`.
    """

    inside: int = 512
    steps: tuple[float, float, float, float, float] = (0.2, 0.3, 0.4, 0.6, 1.0)
    batch: float = 0.5
    rise: float = 0.1
    fall: float = 1.0


@dataclass(frozen=True, slots=True)
class Eased:
    """The profile that a request is answered with, and what it gave up."""

    profile: Profile
    degraded: tuple[Degraded, ...] = ()


class Smoothed:
    """A value that follows its samples, `rise` seconds behind upwards and `fall` downwards; no single one lifts it
    by more than half of the way."""

    __slots__ = ("_at", "_fall", "_rise", "value")

    def __init__(self, rise: float, fall: float) -> None:
        self._rise, self._fall = rise, fall
        self._at: float | None = None
        self.value = 0.0

    def learn(self, sample: float, now: float) -> float:
        """Takes a sample in and returns what the value is now."""
        passed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        part = min(1 - exp(-passed / self._rise), 0.5) if sample > self.value else 1 - exp(-passed / self._fall)
        self.value += part * (sample - self.value)
        return self.value


class Load:
    """`lines` are those that a request stands in, by stage; `lag` is the event loop's, in seconds.

    Belongs to one event loop. `usual` is the profile that the figures are told for; without a reranker (`reranks`)
    there is nothing of it to give up.
    """

    def __init__(
        self,
        options: LoadOptions,
        lines: Mapping[Stage, Foresees],
        usual: Profile,
        *,
        reranks: bool = True,
        lag: Callable[[], float] = float,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.options = options
        self._lines = lines
        self._usual = usual
        self._reranks = reranks
        self._lag = lag
        self._now = now
        self._smoothed = {batch: Smoothed(options.rise, options.fall) for batch in (False, True)}
        self._inside = 0
        self._stays = Typical()
        self._steps: Counter[str] = Counter({step.name.lower(): 0 for step in Step if step})

    @contextmanager
    def stay(self, priority: int) -> Generator[Callable[[], None]]:
        """A request's stay. What it yields is called when all of the request is there, and takes a place inside.

        Both raise Overloaded where all places are taken, so that a full service reads no body and a slow sender keeps
        nobody out.
        """
        came: list[float] = []

        def arrived() -> None:
            if not came:
                self._refuse_full(priority)
                self._inside += 1
                came.append(self._now())

        self._refuse_full(priority)
        try:
            yield arrived
        finally:
            if came:
                self._inside -= 1
                self._stays.learn(self._now() - came[0])

    def eased(self, profile: Profile, left: float, priority: int) -> Eased:
        """What a request with `left` seconds until its deadline is answered with.

        Raises Overloaded where it would spend all of them waiting.
        """
        waits = self._waits(profile, left, priority)
        load = self._load(waits / max(left, 0.001), priority)
        step = self._step(load, priority)
        if step is Step.REFUSED:
            self._steps["refused"] += 1
            raise Overloaded(
                f"The service is full: this would wait {waits * 1000:.0f} ms in line, and {max(left, 0) * 1000:.0f} ms "
                "are left for it. Try again later, allow more time or add an instance.",
                retry_after=max(waits, 0.001),
            )
        return self._given_up(profile, step, load, priority)

    def refuse_late(self, stage: Stage, left: float, priority: int) -> None:
        """Raises Overloaded where the line of one stage alone would take longer than what is left."""
        line = self._lines.get(stage)
        wait = line.expected_wait(priority) if line is not None else 0.0
        if wait > max(left, 0.0):
            self._steps["refused"] += 1
            raise Overloaded(
                f"The line for the stage '{stage}' takes {wait:.1f} s, and {max(left, 0.0):.1f} s are left. "
                "Try again later, allow more time or add capacity.",
                retry_after=max(wait - max(left, 0.0), 0.001),
            )

    def level(self, priority: int = 0) -> Step:
        """The step at which a request of the usual profile would be taken now."""
        return self._step(self.number(priority), priority)

    def number(self, priority: int = 0) -> float:
        """The load for a request of the usual profile that came now."""
        left = self._usual.deadline
        newest = self._waits(self._usual, left, priority) / left
        return min(self._smoothed[priority >= BATCH].value, 2 * newest)

    def figures(self) -> tuple[Figure, ...]:
        """For the metrics."""
        return (
            Figure("load", "Part of its deadline that an interactive request would spend waiting.", self.number),
            Figure("load_batch", "The same for batch traffic.", lambda: self.number(BATCH)),
            Figure(
                "load_level",
                "Step of interactive requests: 0 full, 1 half, 2 a quarter and 3 nothing reranked, 4 lexical only, "
                "5 refused.",
                lambda: float(self.level()),
            ),
        )

    def tallies(self) -> tuple[Tally, ...]:
        """For the metrics."""
        text = "Requests that were eased or refused for the service's load, by step."
        return (Tally("load_steps", text, "step", lambda: self._steps),)

    def _refuse_full(self, priority: int) -> None:
        places = max(int(self.options.inside * self._part(priority)), 1)
        if self._inside >= places:
            self._steps["refused"] += 1
            raise Overloaded(
                f"{self._inside} requests are being answered, and {places} are at most for this priority. "
                "Try again later or add an instance.",
                retry_after=max(self._stays.seconds, 0.001),
            )

    def _waits(self, profile: Profile, left: float, priority: int) -> float:
        """Seconds that a request would wait: legs beside each other, the rest one after the other."""
        now = self._now()

        def wait(stage: Stage) -> float:
            line = self._lines.get(stage)
            return 0.0 if line is None else line.expected_wait(priority, now + left * profile.shares.get(stage, 1.0))

        legs = profile.search.legs
        dense = wait(Stage.ENCODE) + wait(Stage.DENSE) if Leg.DENSE in legs else 0.0
        lexical = wait(Stage.LEXICAL) if Leg.LEXICAL in legs else 0.0
        rerank = wait(Stage.RERANK) if profile.rerank.depth > 0 else 0.0
        return self._lag() + max(dense, lexical) + max(rerank, wait(Stage.DUPLICATES))

    def _load(self, newest: float, priority: int) -> float:
        smoothed = self._smoothed[priority >= BATCH].learn(newest, self._now())
        return min(smoothed, 2 * newest)

    def _step(self, load: float, priority: int) -> Step:
        part = self._part(priority)
        return Step(sum(load >= part * begins for begins in self.options.steps))

    def _part(self, priority: int) -> float:
        return self.options.batch if priority >= BATCH else 1.0

    def _given_up(self, profile: Profile, step: Step, load: float, priority: int) -> Eased:
        degraded: list[Degraded] = []
        why = f"a request would wait {load:.0%} of its deadline in line"
        depth = profile.rerank.depth
        if step and depth > 0 and self._reranks:
            fewer = {Step.HALF_RERANK: depth // 2, Step.QUARTER_RERANK: depth // 4}.get(step, 0)
            profile = replace(profile, rerank=replace(profile.rerank, depth=fewer))
            degraded.append(
                Degraded(Stage.RERANK, "load", f"{fewer} of {depth} at most, {self._since(step, priority, why)}")
            )
        legs = profile.search.legs
        if step >= Step.LEXICAL_ONLY and Leg.DENSE in legs and Leg.LEXICAL in legs:
            profile = replace(profile, search=replace(profile.search, legs=(Leg.LEXICAL,)))
            degraded.append(Degraded(Stage.DENSE, "load", f"the lexical leg alone, {self._since(step, priority, why)}"))
        if degraded:
            self._steps[step.name.lower()] += 1
        return Eased(profile, tuple(degraded))

    def _since(self, step: Step, priority: int, why: str) -> str:
        begins = self.options.steps[step - 1] * self._part(priority)
        return f"as {why}, from {begins:.0%} on"
