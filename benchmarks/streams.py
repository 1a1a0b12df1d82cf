"""A quick reader of many streams at once: raw bytes off keep-alive connections, with the time of each first token.

It parses nothing while a stream runs, so that on a small machine what is measured is the server and not its reader.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

END = b"0\r\n\r\n"  # of a chunked body
PATIENCE = 60.0  # seconds after which a stream counts as broken


@dataclass(frozen=True, slots=True)
class Way:
    """A way to the model server: where, and what is asked there. Each of the `bodies` is asked by turns."""

    name: str
    url: str
    bodies: Sequence[bytes]

    def request(self, number: int) -> bytes:
        """One whole request, as bytes."""
        parts = urlsplit(self.url)
        body = self.bodies[number % len(self.bodies)]
        return b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
            parts.path.encode(),
            parts.netloc.encode(),
            len(body),
            body,
        )


@dataclass(slots=True)
class Stream:
    """One answer: seconds from its request to its first token and to its end; what came, as it came."""

    began: float
    first: float = 0.0
    ended: float = 0.0
    came: list[bytes] = field(default_factory=list[bytes])

    def extension(self) -> dict[str, Any]:
        """What fleetfoot told beside the answer; empty where it was not fleetfoot."""
        for event in b"".join(self.came).split(b"data: "):  # no server cuts an event in two chunks
            if b'"fleetfoot"' in event:
                told: dict[str, Any] = json.loads(event.split(b"\n\n")[0])["fleetfoot"]
                return told
        return {}


class Connection(asyncio.Protocol):
    """One keep-alive connection, one stream at a time; `mark` are the bytes of the first token."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._stream: Stream | None = None
        self._over: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        stream = self._stream
        if stream is None or self._over is None:
            return
        stream.came.append(data)
        if not stream.first and self._mark in data:
            stream.first = time.perf_counter() - stream.began
        if data.endswith(END) and not self._over.done():
            stream.ended = time.perf_counter() - stream.began
            self._over.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(exc or ConnectionError("the connection was closed in the middle of an answer"))

    async def ask(self, request: bytes) -> Stream:
        """Sends a request and waits for the end of its answer. Raises RuntimeError for one without a first token."""
        assert self._transport is not None
        self._over = asyncio.get_running_loop().create_future()
        self._stream = stream = Stream(time.perf_counter())
        self._transport.write(request)
        async with asyncio.timeout(PATIENCE):
            await self._over
        if not stream.first:
            raise RuntimeError(f"no first token: {b''.join(stream.came)[:500]!r}")
        return stream

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Reader:
    """Asks one way with `streams` connections, kept from round to round."""

    def __init__(self, way: Way, connections: Sequence[Connection]) -> None:
        self.way = way
        self._connections = connections
        self._asked = 0

    @classmethod
    async def open(cls, way: Way, streams: int, mark: bytes) -> Reader:
        parts = urlsplit(way.url)
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Connection(mark), parts.hostname, parts.port) for _ in range(streams)
        ]
        return cls(way, [protocol for _, protocol in made])

    async def at_once(self) -> list[Stream]:
        """One stream on each connection, all asked for in the same moment."""
        return await self._gathered([self._one(connection) for connection in self._connections])

    async def steady(self, lasts: float) -> list[Stream]:
        """Two streams after each other on each connection, begun evenly over the time that one `lasts`.

        Only the second ones are returned: they begin while all the other connections are in the middle of a stream.
        """
        apart = lasts / len(self._connections)
        return await self._gathered(
            [self._second(connection, apart * place) for place, connection in enumerate(self._connections)]
        )

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def _gathered(self, asking: Sequence[Any]) -> list[Stream]:
        gc.collect()
        gc.disable()
        try:
            return list(await asyncio.gather(*asking))
        finally:
            gc.enable()

    async def _one(self, connection: Connection) -> Stream:
        self._asked += 1
        return await connection.ask(self.way.request(self._asked))

    async def _second(self, connection: Connection, after: float) -> Stream:
        await asyncio.sleep(after)
        await self._one(connection)
        return await self._one(connection)
