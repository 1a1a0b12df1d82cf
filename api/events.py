"""Server-sent events that survive proxies, slow readers and silence.

    X-Accel-Buffering: no                     nginx passes each event on at once
    Cache-Control: no-cache, no-transform     nobody compresses, and thereby gathers, the stream
    : ping                                    a comment while nothing else is sent, so that idle time-outs do not hit

An event is written when the one before has been taken over by the socket's buffer: a client that reads slowly slows
its own stream and holds nothing but its own connection; after `stall` seconds without progress it is hung up on. Events
of which the next is here already are written together, since each write is a system call; none waits for another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.errors import Problem
from api.visits import Visit
from pipeline.errors import FleetfootError

HELD = 64  # events written together at most
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """In seconds: silence after which a comment is sent, how long one write may take, how long a model may pause."""

    ping: float = 15.0
    stall: float = 30.0
    inter_token: float = 20.0


class ClientStalled(FleetfootError):
    """The client stopped reading its stream, and nothing it could be told would reach it."""

    code = "client_stalled"


class EventSender:
    """Writes one client's events. `waited` is the time in which the client took nothing."""

    def __init__(self, send: Send, visit: Visit, options: StreamOptions) -> None:
        self.options = options
        self.started = False
        self.waited = 0.0
        self._send = send
        self._visit = visit
        self._turn = asyncio.Lock()
        self._held: list[bytes] = []
        self._last = time.perf_counter()
        self._timer: asyncio.TimerHandle | None = None
        self._ping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Sends the headers, once."""
        if not self.started:
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})

    async def event(self, data: bytes, name: str = "", *, more: bool = False) -> None:
        """Sends one event of one line; with `more` it may be held until the next one, which must be here already.

        Raises ClientStalled.
        """
        if self._visit.first_event is None:
            self._visit.first_event = self._visit.elapsed()
        self._held.append(b"event: %b\ndata: %b\n\n" % (name.encode(), data) if name else b"data: %b\n\n" % data)
        if not more or len(self._held) >= HELD:
            await self.flush()

    async def flush(self) -> None:
        """Sends what was held. Raises ClientStalled."""
        if self._held:
            body = b"".join(self._held)
            self._held.clear()
            await self._write(body)

    async def failed(self, told: Problem) -> None:
        """Tells of a failure in the middle, in the shape that OpenAI clients raise it from, and ends the stream."""
        try:
            await self.event(told.body(), "error")
            await self.end()
        except ClientStalled:
            return  # hung up on; the failure stands in the log

    async def end(self) -> None:
        """Completes the response."""
        body = b"".join(self._held)
        self._held.clear()
        await self._write(body, more=False)

    @contextmanager
    def pinging(self) -> Generator[None, None, None]:
        """Sends a comment whenever nothing else has been sent for a while."""
        self._look_later(self.options.ping)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._ping is not None:
                self._ping.cancel()

    def _look_later(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        idle = time.perf_counter() - self._last if self.started else 0.0
        if idle < self.options.ping:
            self._look_later(self.options.ping - idle)
        else:
            self._ping = asyncio.create_task(self._send_ping())

    async def _send_ping(self) -> None:
        with suppress(ClientStalled):  # hung up on: the work is cancelled as for anybody who leaves
            await self._write(b": ping\n\n")
            self._look_later(self.options.ping)

    async def _write(self, body: bytes, *, more: bool = True) -> None:
        message = {"type": "http.response.body", "body": body, "more_body": more}
        if self._visit.writable() and not self._turn.locked():
            await self._send(message)  # nobody waits, so there is nothing to bound
            self._last = time.perf_counter()
            return
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.options.stall), self._turn:
                await self._send(message)
        except TimeoutError:
            self._visit.hang_up()
            raise ClientStalled(
                f"The client has read nothing for {self.options.stall:g} s, and its connection was closed. "
                "Read the stream as it comes."
            ) from None
        self._last = time.perf_counter()
        self.waited += self._last - began


class Told(Response):
    """A response that is told by a coroutine: errors raised before it sends anything get their own status."""

    def __init__(self, story: Callable[[Send], Awaitable[None]]) -> None:
        super().__init__()
        self._story = story

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  ASGI's shape
        await self._story(send)
