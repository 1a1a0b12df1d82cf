"""Leaving: a client that goes away takes its work with it, in every phase of a request, streamed or not.

No framework does this by itself: an endpoint that computes, or waits for a model, never looks at the connection. So
from the moment the body is read one task per request waits for `http.disconnect` and then cancels the request's own;
whatever holds an upstream connection, a place in a line or a generator lets go of it on its way out. (The work has no
task of its own: each costs a turn of the event loop, in which every other request has its turn first.)

The server resumes reading the socket whenever a message is awaited, so waiting here also keeps departures visible
while a client reads slowly. (HTTP/1.1 pipelining is the exception: a second request sent before the first is answered
pauses reading until then.)
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.visits import Visit


class Leaving:
    """Pure ASGI middleware around everything that works for a request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit: Visit = scope["state"]["visit"]
        departure = _Departure(visit, receive, send)
        if not _has_body(scope):
            await departure.read_ahead()
        departure.work = asyncio.current_task()
        try:
            if not visit.left:
                await self.app(scope, departure.receive, departure.send)
        except asyncio.CancelledError:
            if not departure.only_left():
                raise
        finally:
            departure.stop_waiting()


class _Departure:
    def __init__(self, visit: Visit, receive: Receive, send: Send) -> None:
        self.work: asyncio.Task[object] | None = None
        self._visit = visit
        self._receive = receive
        self._send = send
        self._ahead: Message | None = None
        self._gone = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        self._answered = False
        self._cancelled = False

    async def read_ahead(self) -> None:
        """Takes the empty body of a request that has none, so that waiting begins at once."""
        self._ahead = await self._next()

    async def receive(self) -> Message:
        """The body as it comes; after it, nothing until the client has left."""
        if self._ahead is not None:
            message, self._ahead = self._ahead, None
            return message
        if self._waiting is not None:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        return await self._next()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._answered = True  # from here on `http.disconnect` only says that the response is complete
        await self._send(message)

    def only_left(self) -> bool:
        """Whether the work was cancelled because the client left, and for nothing else; it may then end in peace."""
        return self._cancelled and self.work is not None and self.work.uncancel() == 0

    def stop_waiting(self) -> None:
        """Lets go of both tasks, which hold this: else each request's remains would wait for the garbage collector."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self.work = None

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._leave()
            await asyncio.sleep(0)  # where the work itself reads its body, it is cancelled here
        elif not message.get("more_body", False) and self._waiting is None:
            self._waiting = asyncio.create_task(self._wait())
        return message

    async def _wait(self) -> None:
        message = await self._receive()
        while message["type"] != "http.disconnect":
            message = await self._receive()
        self._leave()

    def _leave(self) -> None:
        self._gone.set()
        if self._answered:
            return
        self._visit.left = True
        if self.work is not None:
            self._cancelled = True
            self.work.cancel()


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
