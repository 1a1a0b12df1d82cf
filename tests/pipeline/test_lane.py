import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import Overloaded
from pipeline.lane import Lane, LaneOptions, Ticket

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
