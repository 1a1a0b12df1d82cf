"""Places are bounded, so is their line; whoever leaves loses nobody's place."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import Overloaded
from pipeline.places import Places, PlacesOptions


def places_of(places: int, line: int) -> Places:
    return Places(PlacesOptions("connections", places, line))


class Holder:
    """Somebody who holds a place until let go, or waits for one."""

    def __init__(self, places: Places, log: list[str], name: str = "", priority: int = 0) -> None:
        self.go = asyncio.Event()
        self.task = asyncio.create_task(self._hold(places, log, name, priority))

    async def _hold(self, places: Places, log: list[str], name: str, priority: int) -> None:
        async with places.place(priority):
            log.append(name)
            await self.go.wait()


async def test_interactive_callers_get_the_next_place_before_batch_callers() -> None:
    places, log = places_of(1, 8), list[str]()
    holders: list[Holder] = []
    for name, priority in (("first", 0), ("batch", 1), ("a", 0), ("b", 0)):
        holders.append(Holder(places, log, name, priority))
        await asyncio.sleep(0)
    assert (places.held, places.waiting) == (1, 3)
    for holder in holders:
        holder.go.set()
    await asyncio.gather(*(holder.task for holder in holders))
    assert log == ["first", "a", "b", "batch"]
    assert (places.held, places.waiting) == (0, 0)


async def test_beyond_the_line_a_caller_is_refused_with_the_time_that_the_line_takes() -> None:
    now = 0.0
    places, log = Places(PlacesOptions("connections", 2, 3), now=lambda: now), list[str]()
    warm = Holder(places, log)
    await asyncio.sleep(0)
    now = 4.0
    warm.go.set()
    await warm.task
    holders = [Holder(places, log) for _ in range(5)]
    await asyncio.sleep(0)
    assert places.expected_wait() == pytest.approx(4 * 4.0 / 2)
    assert places.expected_wait(priority=-1) == pytest.approx(4.0 / 2)
    with pytest.raises(Overloaded, match="All 2 connections are taken and 3 callers wait") as refused:
        await Holder(places, log).task
    assert refused.value.retry_after == pytest.approx(8.0)
    for holder in holders:
        holder.go.set()
    await asyncio.gather(*(holder.task for holder in holders))
    assert places.expected_wait() == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["come", "go", "leave"]), st.integers(0, 20)), max_size=60))
def test_no_place_is_lost_or_given_twice_whatever_people_do(story: list[tuple[str, int]]) -> None:
    async def play() -> None:
        places, log = places_of(3, 100), list[str]()
        holders: list[Holder] = []
        for number, (what, which) in enumerate(story):
            if what == "come":
                holders.append(Holder(places, log, priority=which % 3))
            elif holders:
                holder = holders[which % len(holders)]
                holder.go.set() if what == "go" else holder.task.cancel()
            if number % 3:
                await asyncio.sleep(0)
            assert places.held <= 3
        for holder in holders:
            holder.go.set()
        await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)
        assert (places.held, places.waiting) == (0, 0)

    asyncio.run(play())
