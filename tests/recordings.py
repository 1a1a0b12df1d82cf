"""Recordings for tests: many requests of known latencies, and a service that serves one at a time and may stall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from benchmarks.load.driving import drive
from benchmarks.load.plan import Ask, Pace, Plan
from benchmarks.load.recording import Recording, Reply, Sample
from tests.virtual_time import LoopTimer, run_virtually

QUERIES = tuple(f"query {number}" for number in range(40))
PLAN = Plan(QUERIES, Ask(collection="handbook", deadline_ms=100), Pace(20.0), seconds=60, warm_up=2, seed=5)


def recorded(
    plan: Plan = PLAN, *, slower: float = 1.0, noise: int = 1, change: Callable[[Sample], Sample] = lambda it: it
) -> Recording:
    """Each query has a latency of its own, 5 to 50 ms, times a tenth of noise that `noise` draws, times `slower`."""
    chance = Random(f"noise {noise}")
    samples = []
    for number, (instant, query) in enumerate(zip(plan.schedule(), plan.draws(), strict=False)):
        typical = 0.005 + 0.045 * Random(f"latency of {query}").random()
        latency = typical * slower * chance.lognormvariate(0, 0.1)
        samples.append(change(Sample(number, query, instant, 0.0002, latency, 200, found=f"{query}")))
    return Recording(plan, tuple(samples), {"version": "1"}, {"cores": 2}, 0.1, 1e9)


@dataclass
class OneAtATime:
    """Serves one request after another in `takes` seconds; between `stalls` and `until` it serves none."""

    takes: float = 0.01
    stalls: float = 0.0
    until: float = 0.0
    asked: list[int] = field(default_factory=list)
    line: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, query: int) -> Reply:
        timer = LoopTimer()
        self.asked.append(query)
        async with self.line:
            if self.stalls <= timer.now() < self.until:
                await timer.until(self.until)
            await asyncio.sleep(self.takes)
        return Reply(200, timer.now())


def driven(plan: Plan, service: OneAtATime) -> Recording:
    """The plan carried out on virtual time."""
    samples = run_virtually(drive(plan, service.ask, LoopTimer()))
    return Recording(plan, samples)


def paced(plan: Plan, rate: float | None, callers: int | None = None) -> Plan:
    """The plan at another pace."""
    return replace(plan, pace=Pace(rate, callers))
