"""A client that leaves takes its work with it, in every phase, streamed or not, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from math import inf

import aiohttp
import pytest

from generate.vllm import VllmGenerator, VllmOptions
from tests.fakes_api import FakeReranker, FakeRetriever, Gate, Running, Service
from tests.upstream import FakeUpstream, Script

ASKED = {"model": "handbook", "messages": [{"role": "user", "content": "How many days of leave do I have?"}]}
SOON = 5.0  # a bound for the test, not a promise; `make prove-main` measures


async def leave_when(happened: asyncio.Event, service: Service, path: str, body: object) -> None:
    """Sends a request and, once something has happened, breaks the connection off."""

    async def request() -> None:
        async with aiohttp.ClientSession() as client, client.post(service.url + path, json=body) as response:
            await response.read()

    task = asyncio.create_task(request())
    async with asyncio.timeout(SOON):
        await happened.wait()
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/retrieve"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("phase", ["search", "rerank"])
async def test_leaving_before_the_context_is_packed_stops_the_search(path: str, stream: bool, phase: str) -> None:
    body = {"query": "leave", "collection": "handbook"} if path.endswith("retrieve") else {**ASKED, "stream": stream}
    retriever, reranker = FakeRetriever(), FakeReranker()
    gate = Gate(opened=False)
    if phase == "search":
        retriever.gate = gate
    else:
        reranker.gate = gate
    async with Running(retriever=retriever, reranker=reranker) as service:
        await leave_when(gate.reached, service, path, body)
        async with asyncio.timeout(SOON):
            await gate.left.wait()
        assert not service.stages.generator.prompts  # type: ignore[union-attr]


@pytest.mark.parametrize("extra", [{}, {"stream": True}, {"stream": True, "stream_events": True}])
@pytest.mark.parametrize("phase", ["prefill", "tokens"])
async def test_leaving_while_the_model_works_ends_the_upstream_request(extra: dict[str, bool], phase: str) -> None:
    script = Script(before_first=inf) if phase == "prefill" else Script(between=inf)
    async with (
        FakeUpstream(script) as upstream,
        VllmGenerator.open(VllmOptions(upstream.url, "demo")) as generator,
        Running(generator=generator) as service,
    ):
        request = asyncio.create_task(_request(service, extra))
        async with asyncio.timeout(SOON):
            received = await upstream.nth(0)
            await (received.begun if phase == "prefill" else received.speaking).wait()
            request.cancel()
            await asyncio.wait({request})
            await received.left.wait()
            await received.finished.wait()


async def test_staying_to_the_end_is_not_leaving() -> None:
    async with (
        FakeUpstream() as upstream,
        VllmGenerator.open(VllmOptions(upstream.url, "demo")) as generator,
        Running(generator=generator) as service,
    ):
        for _ in range(3):
            async with await service.chat() as response:
                assert (await response.json())["choices"][0]["finish_reason"] == "stop"
        assert not any(received.left.is_set() for received in upstream.received)
        assert upstream.connections == 1  # answers read to their end give their connection back


async def test_a_client_that_stops_reading_slows_its_own_stream_and_holds_nobody_else() -> None:
    """The model's connection waits with the reader, another request is served, and leaving is noticed all the same."""
    script = Script(words=tuple(f" word{number}" + "x" * 16_000 for number in range(1500)))
    async with (
        FakeUpstream(script) as upstream,
        VllmGenerator.open(VllmOptions(upstream.url, "demo")) as generator,
        Running(generator=generator) as service,
    ):
        host, port = service.url.removeprefix("http://").split(":")
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
        _, writer = await asyncio.open_connection(sock=narrow, limit=4096)
        body = json.dumps({**ASKED, "stream": True}).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        async with asyncio.timeout(SOON):
            received = await upstream.nth(0)
            await received.speaking.wait()
            async with await service.retrieve() as response:
                assert response.status == 200
            assert not received.finished.is_set()
            writer.transport.abort()
            await received.left.wait()


async def _request(service: Service, extra: dict[str, bool]) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{service.url}/v1/chat/completions", json={**ASKED, **extra}) as response,
    ):
        await response.read()
