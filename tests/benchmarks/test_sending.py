"""What goes over the wire, and what is made of whatever comes back; in this process, over a small door of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from benchmarks.load.plan import Ask, Kind, Pace, Plan, Target
from benchmarks.load.recording import Recording, Tokens
from benchmarks.load.sending import run
from pipeline.errors import InvalidInput, Misconfigured
from tests.fakes_api import Running

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

CHAT = Ask(Kind.CHAT, "handbook", deadline_ms=5000)
FULL = {"error": {"message": "The lane is full.", "type": "server_error", "param": None, "code": "overloaded"}}


def plan(ask: Ask, *queries: str, **more: float) -> Plan:
    pace, given = Pace(100.0), {"seconds": 0.1, "warm_up": 0.0, "patience": 5.0, **more}
    return Plan(queries or ("How many days of leave?",), ask, pace, connections=2, exponent=None, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def door(answer: Answer, name: str = "fleetfoot") -> AsyncGenerator[Target]:
    """Says that it is fleetfoot, and answers everything else as it is told."""

    async def root(_: web.Request) -> web.Response:
        return web.json_response({"name": name, "version": "0", "generator": "none", "facts": {"embedder": "e"}})

    app = web.Application()
    app.router.add_get("/", root)
    app.router.add_route("*", "/{any:.+}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Target(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


async def sent(ask: Ask, answer: Answer, **more: float) -> Recording:
    async with door(answer) as target:
        return await run(plan(ask, **more), target)


async def streamed(request: web.Request, *lines: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for line in lines:
        await response.write(f"data: {line}\n\n".encode())
    return response


def chunk(**delta: str) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta}]})


async def test_a_retrieval_tells_its_stages_and_what_it_found() -> None:
    async with Running() as service:
        recording = await run(plan(Ask(collection="handbook")), Target(service.url))
    assert recording.samples
    for sample in recording.samples:
        assert sample.answered
        assert {"dense", "rerank", "pack"} <= {lap.stage for lap in sample.laps}
        assert len(sample.found) == 8
    assert recording.server == {"version": "1.2.3", "generator": "fake", "embedder": "fake"}


async def test_a_chat_tells_its_first_token_and_counts_no_chunk() -> None:
    async with Running() as service:
        recording = await run(plan(CHAT), Target(service.url))
    for sample in recording.samples:
        assert sample.answered
        assert sample.first_token is not None
        assert sample.first_token <= sample.latency
        assert sample.tokens == Tokens(12, 3, 8)


async def test_the_key_and_the_fields_that_were_given_are_sent() -> None:
    got: list[tuple[str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            got.append((request.headers["Authorization"], await request.json()))
        return web.json_response(FULL, status=503)

    ask = Ask(collection="c", top_k=3, context_tokens=500, fields={"rerank": {"depth": 0}, "deadline_ms": 9})
    async with door(answer) as target:
        await run(plan(ask, "q"), Target(target.url, "ff-KEY"))
    assert got[0] == (
        "Bearer ff-KEY",
        {"query": "q", "collection": "c", "top_k": 3, "token_budget": 500, "rerank": {"depth": 0}, "deadline_ms": 9},
    )


async def test_a_full_service_is_a_refusal_with_its_code() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(FULL, status=503)

    recording = await sent(Ask(), answer)
    assert {(sample.status, sample.problem) for sample in recording.samples} == {(503, "overloaded")}


async def test_a_stream_that_breaks_off_is_no_answer() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await streamed(request, chunk(role="assistant"), chunk(content="You"))

    (sample, *_) = (await sent(CHAT, answer)).samples
    assert (sample.answered, sample.problem) == (False, "broken_off")
    assert sample.first_event is not None
    assert sample.first_token is not None


async def test_an_error_in_a_stream_is_told_by_its_code() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await streamed(request, chunk(content="You"), json.dumps(FULL))

    (sample, *_) = (await sent(CHAT, answer)).samples
    assert (sample.answered, sample.problem) == (False, "overloaded")


async def test_what_has_no_end_is_given_up_and_what_nobody_understands_is_told() -> None:
    calls = [0]

    async def answer(request: web.Request) -> web.StreamResponse:
        calls[0] += request.method == "POST"
        if calls[0] > 1 and calls[0] % 2:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="[1, 2]")

    recording = await sent(Ask(), answer)
    assert {sample.problem for sample in recording.samples} == {"not_understood", "ServerDisconnectedError"}
    assert {sample.status for sample in recording.samples} == {0}


async def test_what_would_be_refused_every_time_is_refused_once_with_the_services_words() -> None:
    async with Running() as service:
        with pytest.raises(InvalidInput, match=r"\(404\): There is no collection 'handbok'\. Known: handbook"):
            await run(plan(Ask(collection="handbok")), Target(service.url))


async def test_where_nothing_answers_or_something_else_does_nothing_is_sent() -> None:
    with pytest.raises(Misconfigured, match="No fleetfoot answers"):
        await run(plan(Ask()), Target("http://127.0.0.1:9"))

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async with door(answer, "nginx") as target:
        with pytest.raises(Misconfigured, match="is not fleetfoot"):
            await run(plan(Ask()), target)
