"""Many streams at once, one of which nobody reads."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.assembly import DoorOptions
from api.events import StreamOptions
from generate.vllm import VllmGenerator, VllmOptions
from tests.fakes_api import Running, Service, events
from tests.upstream import FakeUpstream, Script

STREAMS = 32
SOON = 20.0  # a bound for the test, not a promise
MORE_THAN_BUFFERS_HOLD = Script(words=tuple(f" word{number}" + "x" * 16_000 for number in range(1500)))
ASKED = {"model": "handbook", "messages": [{"role": "user", "content": "How many days of leave?"}], "stream": True}


@asynccontextmanager
async def behind(upstream: FakeUpstream, **streams: float) -> AsyncGenerator[Service, None]:
    async with (
        VllmGenerator.open(VllmOptions(upstream.url, "demo")) as generator,
        Running(DoorOptions(streams=StreamOptions(**streams)), generator=generator) as service,
    ):
        yield service


async def unread(service: Service) -> asyncio.StreamWriter:
    """A client that asks for a stream and takes next to nothing of it."""
    host, port = service.url.removeprefix("http://").split(":")
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
    _, writer = await asyncio.open_connection(sock=narrow, limit=4096)
    body = json.dumps(ASKED).encode()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    return writer


async def test_a_stream_that_nobody_reads_holds_up_none_of_the_others() -> None:
    async with FakeUpstream(MORE_THAN_BUFFERS_HOLD) as upstream, behind(upstream) as service, asyncio.timeout(SOON):
        writer = await unread(service)
        slow = await upstream.nth(0)
        await slow.speaking.wait()
        upstream.script = Script()
        answers = await asyncio.gather(*(whole(service) for _ in range(STREAMS - 1)))
        assert set(answers) == {"Shoes are kept in the blue box."}
        assert not slow.finished.is_set(), "its connection to the model server waits with its reader"
        assert service.stages.lane.busy == service.stages.lane.waiting == 0
        writer.transport.abort()
        await slow.left.wait()


async def test_a_reader_that_takes_nothing_for_too_long_ends_the_servers_work() -> None:
    async with (
        FakeUpstream(MORE_THAN_BUFFERS_HOLD) as upstream,
        behind(upstream, stall=0.2) as service,
        asyncio.timeout(SOON),
    ):
        writer = await unread(service)
        await (await upstream.nth(0)).left.wait()
        writer.close()


async def test_events_that_are_here_together_are_all_there_and_in_order() -> None:
    words = tuple(f" {number}" for number in range(500))
    async with FakeUpstream(Script(words=words)) as upstream, behind(upstream) as service, asyncio.timeout(SOON):
        assert set(await asyncio.gather(*(whole(service) for _ in range(4)))) == {"".join(words)}


async def whole(service: Service) -> str:
    """The text of a stream that is read to its end."""
    async with service.client.post(f"{service.url}/v1/chat/completions", json=ASKED) as response:
        told = await events(response)
    assert told[-1] == ("", "[DONE]")
    chunks = [json.loads(data) for _, data in told[:-1]]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
