"""Nothing blocks the event loop, and the watchdog that says so can be made to bark."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import BytesIO
from pathlib import Path

import aiohttp
import pytest
from fastapi import FastAPI

from api.assembly import DoorOptions, create_app
from api.starting import settle
from pipeline.lane import Lane, LaneOptions
from tests.fakes_api import FakeStages
from tests.served_here import Here, served_here
from tests.watchdog import watchdog


@pytest.fixture(autouse=True)
def settled() -> Generator[None]:
    """As a service at its start; without it a collection walks over what all tests before have left."""
    thresholds = gc.get_threshold()
    settle()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def computes() -> None:
    """A quarter of a second of a core, however long that takes."""
    until = time.thread_time() + 0.25
    while time.thread_time() < until:
        pass


def sleeps() -> None:
    time.sleep(1.5)


def reads() -> None:
    Path(__file__).read_bytes()


Opened = Callable[[], AbstractAsyncContextManager[FastAPI]]


def over_fakes(handler: Callable[[], None] | None = None) -> Opened:
    """The app over fakes, with one more route for a handler that does what it must not."""

    async def blocks() -> None:
        assert handler is not None
        handler()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[FastAPI]:
        with Lane(LaneOptions("catalog")) as lane:
            app = create_app(FakeStages(lane), DoorOptions())
            app.add_api_route("/blocks", blocks)
            yield app

    return opened


async def asked(here: Here, *what: Callable[[aiohttp.ClientSession], Awaitable[object]]) -> None:
    async with aiohttp.ClientSession(here.url) as client:
        await asyncio.gather(*(each(client) for each in what))


async def get(client: aiohttp.ClientSession, path: str = "/blocks") -> None:
    async with client.get(path) as response:
        assert response.status == 200
        await response.read()


@pytest.mark.parametrize("handler", [computes, sleeps, reads])
async def test_a_handler_that_blocks_the_loop_is_found_with_its_stack(handler: Callable[[], None]) -> None:
    with served_here(over_fakes(handler)) as here:
        await asked(here, get)  # the first time its module may still be read
        with watchdog(here.loop, here.thread) as watching:
            await asked(here, get)
    assert watching.found
    assert f"in {handler.__name__}" in watching.told()


LONG = "How many days of leave do I have? " * 200
MANY = {"query": [f"{LONG} {number}" for number in range(16)], "collection": "handbook"}
CHAT = {"model": "handbook", "messages": [{"role": "user", "content": LONG}] * 50}
DOCUMENTS = {"documents": [{"name": f"{number}.md", "text": LONG * 20} for number in range(100)]}


async def post(client: aiohttp.ClientSession, path: str, body: bytes) -> None:
    async with client.post(path, data=BytesIO(body), headers={"content-type": "application/json"}) as response:
        assert response.status in {200, 202}, await response.text()
        await response.read()


async def test_nothing_at_the_door_blocks_the_loop_whatever_is_asked() -> None:
    bodies = [
        ("/v1/retrieve", {"query": "leave", "collection": "handbook"}),
        ("/v1/retrieve", MANY),
        ("/v1/chat/completions", {"model": "handbook", "messages": [{"role": "user", "content": "leave"}]}),
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", {**CHAT, "stream": True, "stream_events": True}),
        ("/v1/collections/handbook/documents", DOCUMENTS),
    ]
    sent = [(path, json.dumps(body).encode()) for path, body in bodies]
    paths = ["/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/models", "/v1/collections", "/"]
    with served_here(over_fakes()) as here:
        each = [lambda client, path=path: get(client, path) for path in paths]
        each += [lambda client, path=path, body=body: post(client, path, body) for path, body in sent]
        await asked(here, *each)  # what is made on first use is no matter of the loop's
        with watchdog(here.loop, here.thread) as watching:
            for _ in range(3):
                await asked(here, *each)
    assert not watching.found, watching.told()
