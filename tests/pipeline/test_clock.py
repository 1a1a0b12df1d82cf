import asyncio
from math import inf

import pytest

from pipeline.clock import Budget, CacheUse, Clock, Stage
from pipeline.errors import OutOfTime


class Hands:
    """A clock's hands that only a test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_stage_may_use_its_share_or_what_is_left_if_that_is_less() -> None:
    hands = Hands()
    clock = Clock(Budget(1.0, {Stage.RERANK: 0.3}), now=hands)
    assert clock.allowance(Stage.RERANK) == 0.3
    assert clock.allowance(Stage.DENSE) == 1.0
    hands.at += 0.9
    assert clock.allowance(Stage.RERANK) == pytest.approx(0.1)


def test_a_request_without_a_deadline_is_never_late() -> None:
    assert Clock(Budget()).left() == inf


def test_time_counts_from_the_first_byte_and_not_from_when_the_clock_was_made() -> None:
    hands = Hands()
    clock = Clock(Budget(1.0), now=hands, started=99.5)
    assert clock.elapsed() == 0.5
    assert clock.left() == 0.5


async def test_a_lap_tells_waiting_from_working() -> None:
    hands = Hands()
    clock = Clock(Budget(1.0), now=hands)
    hands.at += 0.25
    async with clock.lap(Stage.DENSE) as lap:
        hands.at += 0.5
        lap.waited += 0.125
    (timing,) = clock.timings
    assert (timing.stage, timing.started, timing.granted) == (Stage.DENSE, 0.25, 0.75)
    assert (timing.waited, timing.worked, timing.cut) == (0.125, 0.375, False)


async def test_a_lap_is_cut_at_its_allowance_and_says_so() -> None:
    clock = Clock(Budget(60.0, {Stage.DENSE: 0.001}))
    with pytest.raises(OutOfTime) as late:
        async with clock.lap(Stage.DENSE):
            await asyncio.Event().wait()
    assert late.value.stage == Stage.DENSE
    assert clock.timings[0].cut


async def test_nothing_is_begun_when_nothing_is_left() -> None:
    hands = Hands()
    clock = Clock(Budget(1.0), now=hands)
    hands.at += 2.0
    begun = False
    with pytest.raises(OutOfTime):
        async with clock.lap(Stage.DENSE):
            begun = True
    assert not begun
    assert clock.timings[0].cut


async def test_a_time_out_of_somebody_else_is_not_taken_for_the_laps_own() -> None:
    clock = Clock(Budget(60.0))
    with pytest.raises(TimeoutError):
        async with clock.lap(Stage.DENSE):
            raise TimeoutError
    assert not clock.timings[0].cut


async def test_a_failed_lap_is_recorded_all_the_same() -> None:
    clock = Clock(Budget(60.0))
    with pytest.raises(ValueError, match="broken"):
        async with clock.lap(Stage.DENSE):
            raise ValueError("broken")
    assert [timing.stage for timing in clock.timings] == [Stage.DENSE]


def test_a_split_is_recorded_and_never_cut() -> None:
    hands = Hands()
    clock = Clock(Budget(1.0), now=hands)
    with clock.split(Stage.PACK):
        hands.at += 5.0
    (timing,) = clock.timings
    assert (timing.worked, timing.cut) == (5.0, False)


def test_what_cannot_be_cut_keeps_its_time() -> None:
    hands = Hands()
    clock = Clock(Budget(1.0, {Stage.RERANK: 0.5}, reserve=0.25), now=hands)
    assert clock.allowance(Stage.DENSE) == 0.75
    hands.at += 0.5
    assert clock.allowance(Stage.RERANK) == 0.25
    with clock.split(Stage.PACK):
        pass
    assert clock.timings[-1].granted == 0.5


async def test_a_lap_knows_whose_turn_it_is() -> None:
    async with Clock(Budget(1.0), priority=5).lap(Stage.DENSE) as lap:
        assert lap.priority == 5
    async with Clock(Budget(1.0)).lap(Stage.DENSE) as lap:
        assert lap.priority == 0


async def test_what_caches_were_worth_adds_up_over_laps() -> None:
    clock = Clock(Budget())
    async with clock.lap(Stage.ENCODE) as lap:
        lap.count_cache("vectors", 1, 2)
    clock.count_cache("vectors", 0, 1)
    clock.count_cache("retrievals", 1, 1)
    assert clock.caches == {"vectors": CacheUse(1, 3), "retrievals": CacheUse(1, 1)}


async def test_what_a_cache_was_worth_is_told_of_a_lap_that_was_cut_too() -> None:
    clock = Clock(Budget(0.01))

    async def counts_and_is_late() -> None:
        async with clock.lap(Stage.ENCODE) as lap:
            lap.count_cache("vectors", 1, 1)
            await asyncio.sleep(10)

    with pytest.raises(OutOfTime):
        await counts_and_is_late()
    assert clock.caches == {"vectors": CacheUse(1, 1)}
