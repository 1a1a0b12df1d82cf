"""Whoever rides along makes a flight more urgent or more patient, and never less; who leaves takes nothing away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from math import inf

import pytest

from pipeline.batching import BatchingLane, BatchingOptions
from pipeline.caching import CacheCounts
from pipeline.clock import Lap, Stage
from pipeline.errors import Overloaded
from pipeline.flights import Flights
from tests.searching import until


class Held:
    """A lane that computes upper case, when its gate is open, on a clock moved by hand."""

    def __init__(self) -> None:
        self.time = 0.0
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.batches: list[list[str]] = []
        self.landed: dict[str, str] = {}
        self.counts = CacheCounts()
        self.lane: BatchingLane[str, str] = BatchingLane(
            BatchingOptions("held"), self.work, lambda _: 1, now=lambda: self.time
        )
        self.flights: Flights[str, str] = Flights(
            self.lane, landed=self.landed.__setitem__, counts=self.counts, now=lambda: self.time
        )

    def work(self, items: Sequence[str]) -> list[str]:
        self.batches.append(list(items))
        self.begun.set()
        assert self.gate.wait(10)
        return [item.upper() for item in items]

    async def begins(self, item: str, granted: float = inf, priority: int = 0) -> asyncio.Task[dict[str, str]]:
        lap = Lap(Stage.ENCODE, self.time, granted, priority)
        task = asyncio.create_task(self.flights.take([item], lap))
        await asyncio.sleep(0)
        return task


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    with made.lane:
        yield made
        made.gate.set()


async def busy(held: Held) -> asyncio.Task[dict[str, str]]:
    """The lane's thread is at work, and the next item stands in line."""
    task = await held.begins("first")
    await until(held.begun.is_set)
    return task


async def test_a_flight_is_worth_computing_until_the_last_of_its_riders_deadlines(held: Held) -> None:
    tasks = [await busy(held), await held.begins("a", 1.0), await held.begins("a", 100.0), await held.begins("b", 1.0)]
    held.time = 5.0
    held.gate.set()
    first, hurried, patient, alone = await asyncio.gather(*tasks, return_exceptions=True)
    assert first == {"first": "FIRST"}
    assert hurried == patient == {"a": "A"}
    assert isinstance(alone, Overloaded)


async def test_a_flight_stands_in_line_where_its_most_urgent_rider_would(held: Held) -> None:
    tasks = [await busy(held)]
    for item, granted, priority in (("a", 300.0, 1), ("b", 200.0, 0), ("c", inf, 0), ("a", 100.0, 0)):
        tasks.append(await held.begins(item, granted, priority))
    held.gate.set()
    await asyncio.gather(*tasks)
    assert held.batches[1] == ["a", "b", "c"]
    assert (held.counts.computed, held.counts.joined) == (4, 1)


async def test_the_last_one_who_leaves_takes_the_flight_out_of_the_line(held: Held) -> None:
    tasks = [await busy(held), *[await held.begins("a") for _ in range(2)]]
    for task, waiting in zip(tasks[1:], (1, 0), strict=True):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert held.lane.waiting == waiting
    assert "a" not in held.flights
    held.gate.set()
    await tasks[0]
    assert held.landed == {"first": "FIRST"}


async def test_what_landed_for_nobody_is_told_all_the_same(held: Held) -> None:
    task = await busy(held)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "first" in held.flights
    held.gate.set()
    await until(lambda: held.landed == {"first": "FIRST"})
    assert "first" not in held.flights


async def test_a_new_flight_is_not_ended_by_one_that_was_abandoned(held: Held) -> None:
    first = await busy(held)
    left = await held.begins("a")
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    again = await held.begins("a")
    held.gate.set()
    assert (await again, await first) == ({"a": "A"}, {"first": "FIRST"})
