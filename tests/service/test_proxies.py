"""Events arrive one by one behind proxies that hold responses back and compress them, unless they are told not to.

Nothing is timed: the model server says a word only when the word before has come out at the other end, so a proxy
that holds anything back holds everything up.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.buffering_proxy import BufferingProxy
from tests.running_service import MARKS, PATIENCE, Api, Event, answered, events, sent
from tests.upstream import FakeUpstream

pytestmark = MARKS

WORDS = (" one", " two", " three", " four", " five", " six")
ASKED = {
    "model": "handbook",
    "messages": [{"role": "user", "content": "What does the driver do when a marmot sits on the track?"}],
    "stream": True,
}
ZIPPED = {"Accept-Encoding": "gzip"}


async def test_tokens_come_one_by_one_through_a_proxy_that_buffers_and_compresses(
    upstream: FakeUpstream, wired: Api
) -> None:
    async with BufferingProxy(wired.url) as proxy, session(proxy.url) as client:
        assert await word_by_word(client, upstream) == list(WORDS)
        await answered(client, "GET", "/v1/models")
        assert proxy.held == proxy.zipped == ["/v1/models"], "the proxy has the habits that streams must survive"


async def test_a_jobs_progress_comes_through_a_proxy_that_buffers_and_compresses(wired: Api) -> None:
    async with BufferingProxy(wired.url) as proxy, session(proxy.url) as client:
        job = await sent(client, "t-proxied", a="Told as it goes.")
        async with client.get(f"/v1/jobs/{job['id']}/events") as response:
            told = [event.name async for event in events(response)]
        assert told[-1] == "done"
        assert proxy.held == proxy.zipped == ["/v1/collections/t-proxied/documents"]


async def test_tokens_come_one_by_one_through_nginx(upstream: FakeUpstream, wired: Api, tmp_path: Path) -> None:
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if binary is None:
        pytest.skip("there is no nginx on this machine")
    with nginx(binary, wired.url, tmp_path) as url:
        async with session(url) as client:
            assert await word_by_word(client, upstream) == list(WORDS)
            async with client.get("/v1/models") as response:
                assert response.headers["Content-Encoding"] == "gzip", "nginx compresses what it may"


async def word_by_word(client: aiohttp.ClientSession, upstream: FakeUpstream) -> list[str]:
    """The words of a stream; each is only said after the one before has arrived."""
    permits = asyncio.Semaphore(0)
    upstream.behave(words=WORDS, permits=permits)
    arrived: list[str] = []
    async with asyncio.timeout(PATIENCE / 3), client.post("/v1/chat/completions", json=ASKED) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        async for event in events(response):
            if word := word_of(event):
                arrived.append(word)
                assert not upstream.received[0].finished.is_set() or word == WORDS[-1]
                permits.release()
    return arrived


def word_of(event: Event) -> str:
    if event.data == "[DONE]":
        return ""
    return "".join(choice["delta"].get("content") or "" for choice in event.json()["choices"])


@asynccontextmanager
async def session(url: str) -> AsyncGenerator[aiohttp.ClientSession, None]:
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(url, headers=ZIPPED, timeout=timeout) as client:
        yield client


CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  gzip on; gzip_proxied any; gzip_min_length 1; gzip_types *;
  proxy_buffering on; proxy_buffers 64 64k;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {target}; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""


@contextmanager
def nginx(binary: str, target: str, folder: Path) -> Generator[str, None, None]:
    """A real nginx that buffers and compresses everything, event streams too.

    (Without its compression nginx 1.22 passes chunks on as they come, told to or not; with it, only when told to.)
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    configuration = folder / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, port=port, target=target))
    process = subprocess.Popen([binary, "-p", str(folder), "-c", str(configuration)], stdin=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    for _ in range(500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == os.EX_OK:
                return
        try:
            status = process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"nginx ended with status {status}")
    raise AssertionError("nginx does not listen")
