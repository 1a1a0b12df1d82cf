"""A service on a thread of this process: its loop can be watched, and whoever asks is not on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvloop
from fastapi import FastAPI

from api.serving import ServingOptions, listen, server


@dataclass(frozen=True, slots=True)
class Here:
    """Where it listens, and which loop and thread it runs on."""

    url: str
    loop: asyncio.AbstractEventLoop
    thread: int


@contextmanager
def served_here(opened: Callable[[], AbstractAsyncContextManager[FastAPI]]) -> Generator[Here]:
    """Serves the app that `opened` gives, on uvloop as the service does, until the block ends."""
    started: list[Here] = []
    failed: list[BaseException] = []
    ready = threading.Event()
    ends: list[Callable[[], object]] = []

    async def run() -> None:
        options = ServingOptions(port=0, grace=1.0)
        async with opened() as app, _listening(options) as listening:
            serving = server(app, options)
            task = asyncio.create_task(serving.serve([listening]))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            started.append(Here(url, asyncio.get_running_loop(), threading.get_ident()))
            ends.append(lambda: setattr(serving, "should_exit", True))
            ready.set()
            await task

    def thread() -> None:
        try:
            uvloop.run(run())
        except BaseException as error:  # noqa: BLE001  told to the test, which waits
            failed.append(error)
        finally:
            ready.set()

    running = threading.Thread(target=thread, name="served here", daemon=True)
    running.start()
    ready.wait()
    try:
        if failed:
            raise failed[0]
        yield started[0]
    finally:
        for end in ends:
            end()
        running.join(60)
    if failed:
        raise failed[0]


@asynccontextmanager
async def _listening(options: ServingOptions) -> AsyncGenerator[object]:
    with listen(options) as listening:
        yield listening
