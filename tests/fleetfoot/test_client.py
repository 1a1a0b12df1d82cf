"""The command's client: whatever is at the other end, its user reads a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fleetfoot.client import Refused, connect
from pipeline.errors import InvalidInput, Misconfigured, UpstreamFailed


@asynccontextmanager
async def answering(answer: bytes) -> AsyncGenerator[str]:
    """A server that says the same to everybody and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("url", ["nonsense", "http://", "http://:99999"])
async def test_what_is_no_address_is_named(url: str) -> None:
    async with connect(url) as client:
        with pytest.raises(Misconfigured, match="is no address of a service"):
            await client.get("/readyz")


async def test_a_service_that_hangs_up_is_told_in_a_sentence() -> None:
    async with answering(b"") as url, connect(url) as client:
        with pytest.raises(UpstreamFailed, match=f"The connection to {url} broke off"):
            await client.get("/readyz")


async def test_a_stream_that_breaks_off_is_told_in_a_sentence() -> None:
    begun = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n"
    async with answering(begun) as url, connect(url) as client:
        with pytest.raises(UpstreamFailed, match="broke off"):
            assert [event async for event in client.events("GET", "/")] == [("message", "1")]


async def test_another_program_at_the_address_is_not_taken_for_the_service() -> None:
    page = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/html\r\n\r\nhi"
    async with answering(page) as url, connect(url) as client:
        with pytest.raises(Misconfigured, match="is not fleetfoot"):
            await client.get("/readyz")


@pytest.mark.parametrize(("body", "said"), [(b"", "status 500"), (b"[1]", r"\[1\]"), (b'{"error":"odd"}', "odd")])
async def test_an_error_in_any_shape_is_passed_on(body: bytes, said: str) -> None:
    answer = b"HTTP/1.1 500 Oh\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    async with answering(answer) as url, connect(url) as client:
        with pytest.raises(Refused, match=said):
            await client.get("/readyz")


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    async with connect("http://127.0.0.1:1") as client:
        with pytest.raises(InvalidInput, match=r"gone\.md' cannot be read"):
            await client.upload("handbook", [("gone.md", tmp_path / "gone.md")])
