"""A publish is nobody's interruption: requests that run meanwhile are answered, each from one generation."""

from __future__ import annotations

import asyncio

import aiohttp

from tests.running_service import MARKS, finished, retrieved, sent

pytestmark = MARKS


async def test_while_generations_are_published_every_request_is_answered_from_one_of_them(
    client: aiohttp.ClientSession,
) -> None:
    def edition(number: int) -> dict[str, str]:
        return {name: f"Edition {number} of the {name} timetable." for name in ("summer", "winter")}

    await finished(client, await sent(client, "t-moving", **edition(0)))
    over = asyncio.Event()

    async def ask() -> list[int]:
        generations: list[int] = []
        while not over.is_set():
            result = await retrieved(client, "timetable", "t-moving")  # any other status fails the test
            texts = [passage["text"] for passage in result["passages"]]
            assert len(texts) == 2
            assert len({text.split()[1] for text in texts}) == 1, "two editions in one answer"
            generations.append(int(result["generation"].rpartition("@")[2]))
        return generations

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask()) for _ in range(3)]
        for number in range(1, 5):
            await finished(client, await sent(client, "t-moving", **edition(number)))
        over.set()
    for task in asking:
        assert task.result() == sorted(task.result()), "nobody is sent back to an older generation"
    assert len({generation for task in asking for generation in task.result()}) >= 4
