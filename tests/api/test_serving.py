"""The server as a process: how it starts, and how it ends under a stream."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from api.serving import ServingOptions, listen
from pipeline.errors import Misconfigured
from tests.fakes_api import events

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ASKED = {"model": "handbook", "messages": [{"role": "user", "content": "How long does it take?"}], "stream": True}


@asynccontextmanager
async def process(*arguments: str) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str], None]:
    """A serving process and its address."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.serve_fakes", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        yield child, (await child.stdout.readline()).decode().strip()
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        child._transport.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_running_stream_finishes_within_the_grace_and_the_stages_are_closed(number: signal.Signals) -> None:
    async with process("30") as (child, url), aiohttp.ClientSession() as client:
        async with client.post(f"{url}/v1/chat/completions", json=ASKED) as response:
            await response.content.readline()
            child.send_signal(number)
            told = await events(response)
        said, logged = await child.communicate()
    assert told[-1] == ("", "[DONE]")
    assert said.decode().strip() == "closed"
    assert child.returncode == 0
    assert b"Traceback" not in logged


async def test_after_the_grace_a_stream_is_broken_off_and_never_looks_complete() -> None:
    async with process("1", "100000") as (child, url), aiohttp.ClientSession() as client:
        async with client.post(f"{url}/v1/chat/completions", json=ASKED) as response:
            await response.content.readline()
            child.send_signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientError):
                await response.read()
        said, logged = await child.communicate()
    assert said.decode().strip() == "closed"
    assert child.returncode == 0
    assert b"Traceback" not in logged
    assert b'"code": "cut_short"' in logged


async def test_a_job_that_is_followed_does_not_hold_up_the_end() -> None:
    document = {"documents": [{"text": "a"}]}
    async with process("60") as (child, url), aiohttp.ClientSession() as client:
        async with client.post(f"{url}/v1/collections/handbook/documents", json=document) as response:
            job = await response.json()
        async with client.get(f"{url}/v1/jobs/{job['id']}/events") as response:
            await response.content.readline()
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                await response.read()
        await child.communicate()
    assert child.returncode == 0


def test_an_address_in_use_is_refused_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured, match=f"FLEETFOOT_PORT={port}"):
            listen(ServingOptions(port=port))
