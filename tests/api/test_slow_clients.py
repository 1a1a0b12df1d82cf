"""Clients that dawdle cost a connection for a while, and nobody else anything: raw sockets against a real server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from math import inf

import pytest

from api.assembly import DoorOptions
from api.connection import Patience
from api.serving import UNSENT, ServingOptions, listen
from pipeline.clock import Lap, Stage
from pipeline.load import LoadOptions
from pipeline.passages import Passage
from tests.fakes_api import FakeRetriever, Gate, Running, Service
from tests.fakes_shelf import FakeShelf, make_passage

HASTY = Patience(header=0.2, body=0.2, stall=0.2, rate=1000.0)
BODY = json.dumps({"query": "How many days of leave?", "collection": "handbook"}).encode()
HEADER = (
    b"POST /v1/retrieve HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
WHOLE = HEADER % len(BODY) + BODY


class Dawdler:
    """Sends its request a byte at a time, as long as anybody listens, and reads what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self, most: int) -> bytes:
        """The next bytes, nothing at the end or after a reset."""
        with suppress(ConnectionError):
            return await self.reader.read(most)
        return b""

    async def dawdle(self, data: bytes, *, pause: float = 0.05) -> bytes:
        """Sends slowly until it is hung up on; returns what came, nothing where the connection was reset."""
        sending = asyncio.create_task(self._drip(data, pause))
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _drip(self, data: bytes, pause: float) -> None:
        for byte in data:
            self.writer.write(bytes([byte]))
            await asyncio.sleep(pause)


@asynccontextmanager
async def dawdler(service: Service, *, receives: int = 0) -> AsyncGenerator[Dawdler]:
    host, _, port = service.url.removeprefix("http://").rpartition(":")
    made = socket.socket()
    if receives:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=made, limit=max(receives, 1024))
    try:
        yield Dawdler(reader, writer)
    finally:
        writer.close()


async def hung_up_on(service: Service) -> dict[str, float]:
    """How many clients were hung up on, by what they did not get on with."""
    async with service.client.get(f"{service.url}/metrics") as response:
        lines = (await response.text()).splitlines()
    counted = [line.split() for line in lines if line.startswith("fleetfoot_clients_slow_total{")]
    return {name.split('"')[1]: float(count) for name, count in counted}


@pytest.mark.parametrize(
    ("begun", "slowly"),
    [(b"", WHOLE), (b"POST /v1/retrieve HTTP/1.1\r\nx-long: ", b"x" * 10_000), (HEADER % len(BODY), BODY * 100)],
    ids=["all of it", "an endless header", "the body"],
)
async def test_while_fifty_clients_dawdle_another_is_answered_and_they_are_told_and_hung_up_on(
    begun: bytes, slowly: bytes
) -> None:
    retriever = FakeRetriever()
    async with Running(patience=HASTY, retriever=retriever) as service:

        async def one() -> bytes:
            async with dawdler(service) as client:
                await client.send(begun)
                return await client.dawdle(slowly)

        dawdling = [asyncio.create_task(one()) for _ in range(50)]
        async with await service.retrieve() as response:
            assert response.status == 200
        told = await asyncio.gather(*dawdling)
        assert len(retriever.queries) == 1, "nobody else got as far as a search"
        assert sum((await hung_up_on(service)).values()) == 50
    for each in told:
        assert not each or each.startswith(b"HTTP/1.1 408 Request Timeout\r\n")  # or reset, with bytes on their way


@pytest.mark.parametrize("begun", [WHOLE[:20], WHOLE[:-1]], ids=["the header", "the body"])
async def test_a_client_that_stops_half_way_is_told(begun: bytes) -> None:
    async with Running(patience=HASTY) as service, dawdler(service) as client:
        await client.send(begun)
        header, _, body = (await client.reader.read()).partition(b"\r\n\r\n")
    assert header.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert (b"x-request-id: " in header) is (begun == WHOLE[:-1])
    assert json.loads(body)["error"]["code"] == "request_too_slow"


async def test_dawdlers_enter_no_lane() -> None:
    async with Running(patience=HASTY) as service, dawdler(service) as client:
        lane = service.stages.lane
        await client.send(HEADER.replace(b"/v1/retrieve", b"/v1/collections/handbook/documents") % 100_000 + b"{")
        await lane.run(Lap(Stage.ADMIT, 0.0, inf), lambda _: None)
        assert (await client.reader.read()).startswith(b"HTTP/1.1 408")
        assert (lane.waiting, lane.busy, service.stages.catalog.kept) == (0, 0, [])


async def test_a_client_that_connects_and_says_nothing_is_closed_without_a_word() -> None:
    async with Running(patience=HASTY) as service, dawdler(service) as client:
        assert await client.reader.read() == b""


async def test_a_body_that_comes_steadily_may_take_its_time() -> None:
    patience = Patience(header=0.2, body=0.2, rate=10.0)
    body = BODY.replace(b"?", b"?" + b" " * 100)
    async with Running(patience=patience) as service, dawdler(service) as client:
        await client.send((HEADER % len(body)).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        assert (await client.dawdle(body, pause=0.004)).startswith(b"HTTP/1.1 200")  # some 0.7 s at 250 bytes a second


async def test_a_second_request_on_a_connection_has_to_come_as_well() -> None:
    async with Running(patience=HASTY) as service, dawdler(service) as client:
        await client.send(WHOLE)
        assert (await client.reader.readline()).startswith(b"HTTP/1.1 200")
        await client.send(WHOLE[:50])
        assert b"HTTP/1.1 408" in await client.reader.read()


async def test_a_dawdling_second_request_waits_for_the_answer_to_the_first_and_ends_the_connection() -> None:
    retriever = FakeRetriever()
    retriever.gate = Gate(opened=False)
    async with Running(patience=HASTY, retriever=retriever) as service, dawdler(service) as client:
        await client.send(WHOLE + b"GET / HT")
        await asyncio.sleep(2 * HASTY.header)
        retriever.gate.open()
        told = await client.reader.read()
    assert told.startswith(b"HTTP/1.1 200")
    assert told.count(b"HTTP/1.1") == 1


async def test_a_refused_client_cannot_go_on_sending_for_ever() -> None:
    async with Running(patience=HASTY) as service, dawdler(service) as client:
        await client.send(HEADER % 10**9)  # more than is taken: refused at once
        assert (await client.reader.readline()).startswith(b"HTTP/1.1 413")
        await client.dawdle(b" " * 10_000)  # hung up on: or this would take minutes


def long_passages() -> list[Passage]:
    """As many as make an answer that no socket's buffer holds."""
    return [make_passage(f"d{number}", 0, "word " * 200_000) for number in range(3)]


async def test_a_client_that_does_not_read_its_answer_is_hung_up_on() -> None:
    retriever = FakeRetriever(FakeShelf(long_passages()))
    async with Running(patience=HASTY, retriever=retriever) as service, dawdler(service, receives=4096) as client:
        await client.send(WHOLE)
        counted: dict[str, float] = {}
        for _ in range(1000):
            counted = counted or await hung_up_on(service)
            await asyncio.sleep(0 if counted else 0.05)
        assert counted == {"answer": 1.0}
        got = 0
        while part := await client.rest(2**20):
            got += len(part)
        assert got < 3_000_000


async def test_a_client_that_reads_a_long_answer_steadily_gets_all_of_it() -> None:
    patience = Patience(stall=1.0, rate=1000.0)
    retriever = FakeRetriever(FakeShelf(long_passages()))
    async with Running(patience=patience, retriever=retriever) as service, dawdler(service, receives=65536) as client:
        await client.send(WHOLE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        got = 0
        while part := await client.rest(2**18):
            got += len(part)
            await asyncio.sleep(0.02)
        assert got > 3_000_000


def test_the_kernel_looks_after_clients_that_have_vanished() -> None:
    with (
        listen(ServingOptions(port=0, vanished=60.0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT


async def test_dawdlers_take_no_place_inside_from_others() -> None:
    options = DoorOptions(load=LoadOptions(inside=1))
    async with Running(options) as service, dawdler(service) as client, dawdler(service) as other:
        for each in (client, other):
            await each.send(HEADER % len(BODY) + BODY[:10])
        async with service.client.get(f"{service.url}/metrics") as response:
            assert "fleetfoot_requests_inside 3.0" in await response.text()
        async with await service.retrieve() as response:
            assert response.status == 200
        await client.send(BODY[10:])
        assert (await client.reader.readline()).startswith(b"HTTP/1.1 200")
