"""Equal retrievals at the same time are one search, and nobody is worse off for having shared it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.caching import CacheCounts
from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import OutOfTime, Overloaded
from pipeline.passages import Caller, Candidates, Degraded, Query
from pipeline.ports import Retriever
from retrieve.cached import retrieval_key
from retrieve.shared import SharedRetriever
from tests.fakes_api import Gate
from tests.fakes_shelf import make_passage
from tests.generations import published
from tests.searching import Searching, query, searching

KEY = retrieval_key("this test")


class Held:
    """Implements Retriever: each search stands at its gate, and can be made to fail or to give something up."""

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever
        self.gates: list[Gate] = []
        self.error: Exception | None = None
        self.degraded: tuple[Degraded, ...] = ()

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        gate = Gate(opened=False)
        self.gates.append(gate)
        await gate.through()
        if self.error is not None:
            raise self.error
        found = await self.retriever.retrieve(query, clock)
        return Candidates(found.items, found.shelf, self.degraded)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Searching]:
    passages = [make_passage(f"h{n}", 0, f"the tram number {n}", language="en") for n in range(3)]
    with searching(published(tmp_path, passages)) as opened:
        yield opened


@pytest.fixture
def held(served: Searching) -> Held:
    return Held(served.retriever)


@pytest.fixture
async def shared(served: Searching, held: Held) -> SharedRetriever:
    await served.generations.open_all([("default", "handbook")])
    return SharedRetriever(held, served.generations, KEY, CacheCounts())


def clock(total: float = 60.0, **shares: float) -> Clock:
    return Clock(Budget(total, {Stage(stage): seconds for stage, seconds in shares.items()}))


async def begins(shared: SharedRetriever, clock: Clock, asked: Query | None = None) -> asyncio.Task[Candidates]:
    """A retrieval that has come as far as it comes by itself."""
    task = asyncio.create_task(shared.retrieve(asked or query("tram"), clock))
    for _ in range(20):
        await asyncio.sleep(0.001)
    return task


def opens(gate: Gate) -> None:
    gate._open.set()


async def test_those_who_ask_the_same_at_the_same_time_share_one_search(held: Held, shared: SharedRetriever) -> None:
    clocks = [clock() for _ in range(5)]
    tasks = [await begins(shared, each) for each in clocks]
    assert len(held.gates) == 1
    opens(held.gates[0])
    found = await asyncio.gather(*tasks)
    assert all(each.items == found[0].items for each in found)
    for follower in clocks[1:]:
        (lap,) = (timing for timing in follower.timings if timing.stage is not Stage.ADMIT)
        assert lap.stage is Stage.CACHE
        assert lap.waited > 0
        assert lap.worked < lap.waited


async def test_other_questions_and_other_people_are_not_held_up(held: Held, shared: SharedRetriever) -> None:
    staff = Query("tram", Caller(labels=frozenset({"staff"})), ("handbook",), query("tram").profile)
    different = (query("tram"), query("ferry"), query("tram", candidates=7), staff)
    tasks = [await begins(shared, clock(), each) for each in different]
    assert len(held.gates) == 4
    for gate in held.gates:
        opens(gate)
    await asyncio.gather(*tasks)


async def test_when_the_leader_leaves_the_next_one_leads(held: Held, shared: SharedRetriever) -> None:
    leader, second, third = [await begins(shared, clock()) for _ in range(3)]
    leader.cancel()
    await asyncio.gather(leader, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert len(held.gates) == 2
    opens(held.gates[1])
    assert (await second).items == (await third).items != ()


async def test_a_follower_who_leaves_takes_nothing_from_the_others(held: Held, shared: SharedRetriever) -> None:
    leader, leaving, staying = [await begins(shared, clock()) for _ in range(3)]
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    opens(held.gates[0])
    assert (await leader).items == (await staying).items
    assert len(held.gates) == 1


async def test_what_a_leader_gave_up_its_followers_need_not(held: Held, shared: SharedRetriever) -> None:
    leader, follower = [await begins(shared, clock()) for _ in range(2)]
    held.degraded = (Degraded(Stage.ENCODE, "out_of_time"),)
    opens(held.gates[0])
    assert (await leader).degraded == held.degraded
    held.degraded = ()
    await asyncio.sleep(0.01)
    opens(held.gates[1])
    assert (await follower).degraded == ()


async def test_what_a_leader_failed_at_its_followers_try_themselves(held: Held, shared: SharedRetriever) -> None:
    leader, follower = [await begins(shared, clock()) for _ in range(2)]
    held.error = Overloaded("the line is full", retry_after=1.0)
    opens(held.gates[0])
    with pytest.raises(Overloaded):
        await leader
    held.error = None
    await asyncio.sleep(0.01)
    opens(held.gates[1])
    assert (await follower).items != ()


async def test_a_follower_waits_for_its_share_and_then_searches_for_itself(held: Held, shared: SharedRetriever) -> None:
    leader = await begins(shared, clock())
    hurried = clock(cache=0.005)
    follower = await begins(shared, hurried)
    assert len(held.gates) == 2  # while the leader still searches
    opens(held.gates[1])
    assert (await follower).items != ()
    assert [timing.cut for timing in hurried.timings if timing.stage is Stage.CACHE] == [True]
    opens(held.gates[0])
    await leader


async def test_each_keeps_its_own_deadline(held: Held, shared: SharedRetriever, served: Searching) -> None:
    leader = await begins(shared, clock())
    late = await begins(shared, clock(0.01))
    opens(held.gates[1])
    with pytest.raises(OutOfTime):
        await late
    opens(held.gates[0])
    assert (await leader).degraded == ()


async def test_nothing_is_left_behind_when_all_are_gone(held: Held, shared: SharedRetriever) -> None:
    tasks = [await begins(shared, clock()) for _ in range(3)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert shared._leads == {}
