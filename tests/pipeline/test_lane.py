import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.clock import Budget, Clock, Lap, Stage
from pipeline.errors import Overloaded
from pipeline.lane import Lane, LaneOptions, Ticket
from tests.searching import until

BOUND = 10.0  # seconds: a test that waits longer has failed


@contextmanager
def lane(**options: int) -> Iterator[Lane]:
    with Lane(LaneOptions("test", **options)) as opened:
        yield opened


class Gate:
    """Work that begins, says so, and returns only when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()
        self.still_wanted: bool | None = None

    def __call__(self, ticket: Ticket) -> str:
        self.begun.set()
        assert self.open.wait(BOUND)
        self.still_wanted = ticket.wanted()
        return "done"


async def begun(gate: Gate) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, gate.begun.wait, BOUND)


async def occupy(lane: Lane, clock: Clock, work: Gate) -> asyncio.Task[str]:
    async def run() -> str:
        async with clock.lap(Stage.DENSE) as lap:
            return await lane.run(lap, work)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    return task


async def test_work_returns_what_it_computed_on_another_thread() -> None:
    with lane() as open_lane:
        async with Clock(Budget()).lap(Stage.DENSE) as lap:
            name = await open_lane.run(lap, lambda _: threading.current_thread().name)
    assert name == "test-0"


async def test_an_error_of_the_work_reaches_the_caller_as_itself() -> None:
    def fail(_: Ticket) -> None:
        raise ValueError("broken")

    with lane() as open_lane:
        async with Clock(Budget()).lap(Stage.DENSE) as lap:
            with pytest.raises(ValueError, match="broken"):
                await open_lane.run(lap, fail)


async def test_beyond_the_line_a_caller_is_refused_at_once() -> None:
    gate, clock = Gate(), Clock(Budget())
    with lane(threads=1, line=1) as open_lane:
        working = await occupy(open_lane, clock, gate)
        await begun(gate)
        waiting = await occupy(open_lane, clock, gate)
        async with clock.lap(Stage.DENSE) as lap:
            with pytest.raises(Overloaded) as refused:
                await open_lane.run(lap, gate)
        assert refused.value.retry_after is not None
        assert refused.value.retry_after > 0
        gate.open.set()
        assert await working == await waiting == "done"


async def test_who_leaves_the_line_is_never_computed_for_and_makes_room() -> None:
    gate, clock = Gate(), Clock(Budget())
    computed: list[int] = []
    with lane(threads=1, line=1) as open_lane:
        working = await occupy(open_lane, clock, gate)
        await begun(gate)

        async def wait_in_line(number: int) -> None:
            async with clock.lap(Stage.DENSE) as lap:
                await open_lane.run(lap, lambda _: computed.append(number))

        leaving = asyncio.create_task(wait_in_line(1))
        await asyncio.sleep(0)
        assert open_lane.waiting == 1
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert open_lane.waiting == 0
        staying = asyncio.create_task(wait_in_line(2))
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(working, staying)
    assert computed == [2]


async def test_leaving_frees_the_caller_and_the_work_can_ask() -> None:
    gate, clock = Gate(), Clock(Budget())
    with lane() as open_lane:
        working = await occupy(open_lane, clock, gate)
        await begun(gate)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert open_lane.busy == 1  # the thread is still taken
        gate.open.set()
    assert gate.still_wanted is False


async def test_the_line_is_served_earliest_deadline_first() -> None:
    gate = Gate()
    order: list[str] = []
    with lane(threads=1, line=8) as open_lane:
        working = await occupy(open_lane, Clock(Budget()), gate)
        await begun(gate)

        async def ask(name: str, total: float) -> None:
            async with Clock(Budget(total)).lap(Stage.DENSE) as lap:
                await open_lane.run(lap, lambda _: order.append(name))

        patient = asyncio.create_task(ask("patient", 1000.0))
        await asyncio.sleep(0)
        hasty = asyncio.create_task(ask("hasty", 500.0))
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(working, patient, hasty)
    assert order == ["hasty", "patient"]


async def test_time_in_line_is_waiting_and_not_working() -> None:
    gate, clock = Gate(), Clock(Budget())
    with lane(threads=1, line=1) as open_lane:
        working = await occupy(open_lane, Clock(Budget()), gate)
        await begun(gate)
        async with clock.lap(Stage.DENSE) as lap:
            waiting = asyncio.create_task(open_lane.run(lap, lambda _: None))
            await asyncio.sleep(0)
            gate.open.set()
            await waiting
        await working
    (timing,) = clock.timings
    assert timing.waited > 0


async def test_permits_bound_native_work_over_several_lanes() -> None:
    permits, gate, other = threading.Semaphore(1), Gate(), Gate()
    clock = Clock(Budget())
    with (
        Lane(LaneOptions("a"), permits=permits) as a,
        Lane(LaneOptions("b"), permits=permits) as b,
    ):
        first = await occupy(a, clock, gate)
        await begun(gate)
        second = await occupy(b, clock, other)
        assert not other.begun.is_set()
        gate.open.set()
        other.open.set()
        assert await asyncio.gather(first, second) == ["done", "done"]


async def test_a_closed_lane_refuses() -> None:
    with lane() as open_lane:
        pass
    async with Clock(Budget()).lap(Stage.DENSE) as lap:
        with pytest.raises(Overloaded):
            await open_lane.run(lap, lambda _: None)


class Time:
    """A lane's clock, moved by a test."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def lap(granted: float, time: Time, priority: int = 0) -> Lap:
    return Lap(Stage.DENSE, time(), granted, priority)


async def taught(lane: Lane, time: Time, seconds: float, times: int = 20) -> None:
    """Lets the lane do work of that length, one piece after another."""

    def work(_: Ticket) -> None:
        time.seconds += seconds

    for _ in range(times):
        await lane.run(lap(inf, time), work)
        await idle(lane)


async def idle(lane: Lane) -> None:
    """A thread puts its last caller away a moment after it has told the result."""
    await until(lambda: lane.busy == 0)


async def test_who_would_come_to_its_turn_too_late_is_refused_on_joining() -> None:
    time, gate = Time(), Gate()
    with Lane(LaneOptions("test", line=8), now=time) as open_lane:
        await taught(open_lane, time, 1.0)
        working = asyncio.create_task(open_lane.run(lap(10.0, time), gate))
        await begun(gate)
        waiting = asyncio.create_task(open_lane.run(lap(10.0, time), gate))
        await asyncio.sleep(0)
        assert open_lane.expected_wait() == pytest.approx(2.0)
        with pytest.raises(Overloaded, match="in 2000 ms and then take 1000; 2900 ms are left") as refused:
            await open_lane.run(lap(2.9, time, priority=1), gate)
        assert refused.value.retry_after == pytest.approx(2.0)
        in_time = asyncio.create_task(open_lane.run(lap(3.1, time, priority=1), gate))
        await asyncio.sleep(0)
        assert open_lane.waiting == 2
        gate.open.set()
        await asyncio.gather(working, waiting, in_time)


async def test_what_counts_is_who_stands_before_one_and_not_how_long_the_line_is() -> None:
    time, gate = Time(), Gate()
    with Lane(LaneOptions("test", line=8), now=time) as open_lane:
        await taught(open_lane, time, 1.0)
        tasks = [asyncio.create_task(open_lane.run(lap(inf, time), gate))]
        await begun(gate)
        tasks += [asyncio.create_task(open_lane.run(lap(inf, time, priority=1), gate)) for _ in range(5)]
        await asyncio.sleep(0)
        assert open_lane.expected_wait(priority=0) == pytest.approx(1.0)
        assert open_lane.expected_wait(priority=1) == pytest.approx(6.0)
        tasks.append(asyncio.create_task(open_lane.run(lap(2.5, time), gate)))
        await asyncio.sleep(0)
        assert open_lane.waiting == 6
        gate.open.set()
        await asyncio.gather(*tasks)


async def test_work_that_fits_itself_to_what_is_left_is_refused_only_for_the_wait() -> None:
    time, gate = Time(), Gate()
    with Lane(LaneOptions("test", line=8), now=time) as open_lane:
        await taught(open_lane, time, 1.0)
        working = asyncio.create_task(open_lane.run(lap(inf, time), gate))
        await begun(gate)
        elastic = asyncio.create_task(open_lane.run(lap(1.1, time), gate, needs=0.0))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await open_lane.run(lap(1.1, time), gate)
        gate.open.set()
        await asyncio.gather(working, elastic)


async def test_an_idle_lane_takes_anybody_so_that_an_estimate_cannot_refuse_for_ever() -> None:
    time = Time()
    with Lane(LaneOptions("test"), now=time) as open_lane:
        await taught(open_lane, time, 60.0, times=3)
        for _ in range(60):
            await open_lane.run(lap(0.1, time), lambda _: None)
            await idle(open_lane)
        assert open_lane.retry_after() < 0.5


async def test_who_ran_out_while_in_line_is_told_soon_and_never_computed_for() -> None:
    time, gate = Time(), Gate()
    computed: list[str] = []
    with Lane(LaneOptions("test", line=8), now=time) as open_lane:
        working = asyncio.create_task(open_lane.run(lap(inf, time), gate))
        await begun(gate)
        late = asyncio.create_task(open_lane.run(lap(1.0, time), lambda _: computed.append("late")))
        await asyncio.sleep(0)
        time.seconds = 2.0
        gate.open.set()
        with pytest.raises(Overloaded, match="came to this after 2000 ms, too late"):
            await late
        await working
    assert computed == []


async def test_without_foresight_only_a_full_line_refuses() -> None:
    time, gate = Time(), Gate()
    with Lane(LaneOptions("test", line=2, foresight=False), now=time) as open_lane:
        await taught(open_lane, time, 1.0)
        tasks = [asyncio.create_task(open_lane.run(lap(inf, time), gate))]
        await begun(gate)
        tasks.append(asyncio.create_task(open_lane.run(lap(0.5, time), gate)))
        await asyncio.sleep(0)
        assert open_lane.waiting == 1
        gate.open.set()
        await asyncio.gather(*tasks)


async def test_interactive_callers_come_before_batch_callers_whatever_their_deadlines() -> None:
    time, gate = Time(), Gate()
    order: list[str] = []
    with Lane(LaneOptions("test", line=8), now=time) as open_lane:
        tasks = [asyncio.create_task(open_lane.run(lap(inf, time), gate))]
        await begun(gate)
        for name, priority, granted in (("batch", 1, 10.0), ("patient", 0, 90.0), ("hasty", 0, 20.0)):
            work = partial(lambda name, _: order.append(name), name)
            tasks.append(asyncio.create_task(open_lane.run(lap(granted, time, priority), work)))
            await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*tasks)
    assert order == ["hasty", "patient", "batch"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.booleans()), max_size=20), st.integers(1, 3))
def test_nobody_is_lost_everybody_is_answered_refused_or_left(
    callers: list[tuple[int, bool, bool]], threads: int
) -> None:
    async def story() -> None:
        gate = Gate()
        done: list[int] = []
        with lane(threads=threads, line=6) as open_lane:
            blocked = [asyncio.create_task(open_lane.run(forever(), gate)) for _ in range(threads)]
            await until(lambda: open_lane.busy == threads)
            tasks = []
            for number, (priority, hasty, _) in enumerate(callers):
                of = Lap(Stage.DENSE, perf_counter(), 0.0001 if hasty else inf, priority)
                tasks.append(asyncio.create_task(open_lane.run(of, partial(lambda n, _: done.append(n), number))))
                await asyncio.sleep(0)
            for task, (_, _, leaves) in zip(tasks, callers, strict=True):
                if leaves:
                    task.cancel()
            await asyncio.sleep(0)  # who leaves has left before the thread comes free
            gate.open.set()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*blocked)
            assert open_lane.waiting == 0
        answered = [number for number, end in enumerate(ended) if end is None]
        assert sorted(done) == answered
        assert all(end is None or isinstance(end, Overloaded | asyncio.CancelledError) for end in ended)

    asyncio.run(story())


def forever() -> Lap:
    return Lap(Stage.DENSE, perf_counter(), inf)
