"""Requests that come together begin one after the other, and whatever else is ready has its step between them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from api.turns import Turns


async def test_of_many_that_come_together_one_begins_in_each_turn_of_the_loop_in_their_order() -> None:
    turns = Turns()
    happened: list[int | str] = []

    async def request(number: int) -> None:
        await turns.take()
        happened.append(number)

    async def stream() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            happened.append("token")

    await asyncio.gather(*(request(number) for number in range(5)), stream())
    assert [each for each in happened if each != "token"] == [0, 1, 2, 3, 4]
    places = [place for place, each in enumerate(happened) if each != "token"]
    assert all("token" in happened[before:after] for before, after in pairwise(places))


async def test_one_that_comes_alone_does_not_wait() -> None:
    turns = Turns()
    for _ in range(3):
        taking = turns.take()
        try:
            taking.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("it waited")
        await asyncio.sleep(0)


async def test_who_leaves_the_line_passes_its_turn_on() -> None:
    turns = Turns()
    tasks = [asyncio.create_task(turns.take()) for _ in range(4)]
    await turns.take()
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[2].cancel()
    async with asyncio.timeout(5):
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks] == [False, True, True, False]
        await turns.take()
