"""The end, asked for: a stream is finished, a task is returned, and what was accepted is done by whoever comes next."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

from tests.running_service import MARKS, PATIENCE, Api, Site, events
from tests.service.test_proxies import ASKED, WORDS, word_of
from tests.upstream import FakeUpstream

pytestmark = MARKS


async def test_a_door_asked_to_end_finishes_its_stream_and_lets_nobody_in(
    site: Site, api: Api, upstream: FakeUpstream
) -> None:
    permits = asyncio.Semaphore(0)
    upstream.behave(words=WORDS, permits=permits)
    said: list[str] = []
    with site.serving(UPSTREAM_URL=upstream.url, UPSTREAM_MODEL="demo") as serving:
        async with asyncio.timeout(PATIENCE), serving.client() as client:
            async with client.post("/v1/chat/completions", json=ASKED) as response:
                async for event in events(response):
                    if not said and word_of(event):
                        serving.ask_to_end()
                        await refused(serving)
                        permits.release()
                        for _ in WORDS:
                            permits.release()
                    said.append(word_of(event) or event.data)
            assert [word for word in said if word in WORDS] == list(WORDS)
            assert said[-1] == "[DONE]"
        assert await asyncio.to_thread(serving.ended) == 0


async def refused(serving: Api) -> None:
    """Waits until new connections are refused."""
    address = urlsplit(serving.url)
    for _ in range(int(PATIENCE / 0.05)):
        with socket.socket() as probe:
            if probe.connect_ex((address.hostname or "", address.port or 0)) != 0:
                assert serving.process.poll() is None, "it ended under its stream"
                return
        await asyncio.sleep(0.05)
    raise AssertionError("it still lets everybody in")
