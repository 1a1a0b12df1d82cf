"""The timer's thread wakes whoever waits, in order and never too early."""

from __future__ import annotations

import asyncio

from benchmarks.load.timer import ThreadTimer


async def test_nobody_is_woken_too_early_and_the_earliest_is_woken_first() -> None:
    woken: list[tuple[float, float]] = []
    with ThreadTimer.open() as timer:
        start = timer.now()

        async def wait(after: float) -> None:
            await timer.until(start + after)
            woken.append((after, timer.now() - start))

        await asyncio.gather(*(wait(after) for after in (0.03, 0.01, 0.02)))
    assert [after for after, _ in woken] == [0.01, 0.02, 0.03]
    assert all(at >= after for after, at in woken)


async def test_an_instant_that_has_passed_lets_others_have_their_turn() -> None:
    turns: list[str] = []
    with ThreadTimer.open() as timer:
        asyncio.get_running_loop().call_soon(turns.append, "others")
        await timer.until(timer.now() - 1)
        turns.append("late")
    assert turns == ["others", "late"]


async def test_who_stopped_waiting_disturbs_nobody() -> None:
    with ThreadTimer.open() as timer:
        left = asyncio.create_task(timer.until(timer.now() + 0.01))
        stays = asyncio.create_task(timer.until(timer.now() + 0.02))
        await asyncio.sleep(0)
        left.cancel()
        await stays
    assert left.cancelled()
