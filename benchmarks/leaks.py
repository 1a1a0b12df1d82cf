"""Thousands of clients that come and go, most of them too early: does a service keep a task, a socket or memory?

    python -m benchmarks.leaks [CONNECTIONS]

A real service in its own process with a scripted model server behind it. Every connection is a new one and ends in one
of nine ways by turns (see `WAYS`), half of them with a reset. Eight questions are asked, so that no cache grows. At
each 500th connection everybody leaves, and the service is looked at from outside: resident memory in /proc/PID/status,
sockets in /proc/PID/fd, tasks and requests inside in /metrics. Prints a line each, and the slope of the memory from the
2,000th to the last by least squares.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import uvloop
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from benchmarks.prove_main import handbook
from benchmarks.service import service
from benchmarks.streaming import model_server
from fleetfoot.demo import free_port
from fleetfoot.processes import end

CONNECTIONS = 10_000
EACH = 500
FROM = 2_000  # everything that is made on first use has been made by then
AT_ONCE = 32
SETTLING = 6.0  # seconds: longer than an idle connection to the model server is kept
PATIENCE = 60.0
SEED = 20260101
TEXT = "The driver stops ten metres short of it [1] , sounds the whistle once , and waits until it has gone ."
QUESTIONS = (
    "What does the driver do when a marmot sits on the track?",
    "How many days of leave do I have?",
    "Where are shoes kept?",
    "Who sounds the whistle?",
    "What is the notice period?",
    "When does the last train leave?",
    "Who may drive the engine?",
    "What do I do when I am ill?",
)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends a reset


@dataclass(frozen=True, slots=True)
class Look:
    """What a process had at one moment: kibibytes resident, sockets, tasks of its loop, requests inside."""

    after: int
    resident: int
    sockets: int
    tasks: int
    inside: int

    def __str__(self) -> str:
        return (
            f"after {self.after:6}: {self.resident / 1024:8.2f} MB resident, {self.sockets} sockets, "
            f"{self.tasks} tasks, {self.inside} inside"
        )


class Client:
    """One client of a service at `url`; each of its methods is one connection, and one way to use it."""

    def __init__(self, url: str, collection: str = "handbook", *, seed: int = SEED) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._collection = collection
        self._numbers = count()
        self._random = random.Random(seed)

    async def connects_only(self) -> None:
        await self._leaves(b"")

    async def leaves_in_the_header(self) -> None:
        await self._leaves(self._chat()[:40])

    async def leaves_in_the_body(self) -> None:
        await self._leaves(self._chat()[:-20])

    async def leaves_at_once_after_asking(self) -> None:
        await self._leaves(self._chat())

    async def leaves_while_it_is_searched(self) -> None:
        await self._leaves(self._chat(), after=self._random.uniform(0.0, 0.02))

    async def leaves_in_prefill(self) -> None:
        await self._leaves(self._chat(stream_events=True), until=b"event: passages")

    async def leaves_among_the_tokens(self) -> None:
        await self._leaves(self._chat(), until=b'"delta"')

    async def stays_to_the_end_of_a_stream(self) -> None:
        await self._leaves(self._chat(), until=b"data: [DONE]")

    async def retrieves(self) -> None:
        body = {"query": QUESTIONS[next(self._numbers) % len(QUESTIONS)], "collection": self._collection}
        await self._leaves(self._request("/v1/retrieve", body), until=b"HTTP/1.1 200")

    def _chat(self, **more: object) -> bytes:
        question = QUESTIONS[next(self._numbers) % len(QUESTIONS)]
        body = {"model": self._collection, "stream": True, "messages": [{"role": "user", "content": question}], **more}
        return self._request("/v1/chat/completions", body)

    def _request(self, path: str, body: dict[str, object]) -> bytes:
        encoded = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(encoded)}\r\n\r\n".encode() + encoded

    async def _leaves(self, sent: bytes, *, after: float = 0.0, until: bytes = b"") -> None:
        """Raises RuntimeError where the service ends the connection before it has said what was waited for."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            if sent:
                writer.write(sent)
            if after:
                await asyncio.sleep(after)
            seen = b""
            async with asyncio.timeout(PATIENCE):
                while until not in seen:
                    more = await reader.read(65536)
                    if not more:
                        raise RuntimeError(f"{until!r} was not said: {seen[:300]!r}")
                    seen += more
        finally:
            if next(self._numbers) % 2:
                held = writer.get_extra_info("socket")
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.close()


WAYS: tuple[Callable[[Client], object], ...] = (
    Client.connects_only,
    Client.leaves_in_the_header,
    Client.leaves_in_the_body,
    Client.leaves_at_once_after_asking,
    Client.leaves_while_it_is_searched,
    Client.leaves_in_prefill,
    Client.leaves_among_the_tokens,
    Client.stays_to_the_end_of_a_stream,
    Client.retrieves,
)


async def come_and_go(
    url: str, pid: int, connections: int, *, each: int = EACH, tell: Callable[[str], None]
) -> list[Look]:
    """Makes the connections, and looks at the service before them, at every `each`th, and when all has settled."""
    client = Client(url)
    looks: list[Look] = []

    async def look(after: int) -> None:
        looks.append(await quiet(url, pid, after))
        tell(str(looks[-1]))

    await one_by_one(client, 10 * len(WAYS))
    await asyncio.sleep(SETTLING)
    await look(0)
    for begin in range(0, connections, each):
        await one_by_one(client, min(each, connections - begin), first=begin)
        await look(min(begin + each, connections))
    await asyncio.sleep(SETTLING)
    await look(connections)
    return looks


async def one_by_one(client: Client, connections: int, first: int = 0) -> None:
    """So many connections, `AT_ONCE` at a time, each in the next of the ways. Raises what the first one raises."""
    numbers = iter(range(first, first + connections))

    async def some() -> None:
        for number in numbers:
            await WAYS[number % len(WAYS)](client)  # type: ignore[misc]

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(some())


async def quiet(url: str, pid: int, after: int) -> Look:
    """Looks when nobody is inside but who asks, or as things are after a while."""
    look = await looked(url, pid, after)
    for _ in range(50):
        if look.inside <= 1:
            break
        await asyncio.sleep(0.1)
        look = await looked(url, pid, after)
    return look


async def looked(url: str, pid: int, after: int) -> Look:
    """One look."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
        text = await response.text()
        sockets = sockets_of(pid)
    figures = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in {"fleetfoot_tasks", "fleetfoot_requests_inside"}
    }
    return Look(
        after, resident(pid), sockets, int(figures["fleetfoot_tasks"]), int(figures["fleetfoot_requests_inside"])
    )


def resident(pid: int) -> int:
    """Resident memory of a process, in KiB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/status tells no VmRSS")


def sockets_of(pid: int) -> int:
    """Open sockets of a process (Linux)."""
    kinds: Counter[str] = Counter()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kinds[str(entry.readlink()).partition(":")[0]] += 1
        except FileNotFoundError:
            continue  # closed while we looked
    return kinds["socket"]


def slope(looks: Sequence[Look], since: int) -> float:
    """KiB of resident memory for each connection, by least squares over the looks from `since` on."""
    chosen = [look for look in looks if look.after >= since]
    if len({look.after for look in chosen}) < 2:
        raise ValueError(f"There are no two looks from the {since}th connection on; make more connections.")
    return float(np.polyfit([look.after for look in chosen], [look.resident for look in chosen], 1)[0])


def measure(folder: Path, *, connections: int = CONNECTIONS, console: Console | None = None) -> dict[str, float]:
    """Runs everything over a service in `folder`; returns `slope` (KiB a connection), `tasks` and `sockets` left, and
    the requests still `inside` at the end."""
    console = console or Console(width=120)
    began = time.perf_counter()
    with model_server(TEXT, 2.0, "--before-first-ms", "20", "--forgets") as upstream:
        settings = {
            "FLEETFOOT_UPSTREAM_URL": upstream,
            "FLEETFOOT_UPSTREAM_MODEL": "demo",
            "FLEETFOOT_DEADLINE_MS": "30000",
        }
        with service(folder, free_port(0, console), settings=settings) as running:
            handbook(running.url)
            end(*running.workers)
            looks = uvloop.run(come_and_go(running.url, running.api.pid, connections, tell=console.print))
    first, last = looks[0], looks[-1]
    figures = {
        "slope": slope(looks, min(FROM, connections // 5)),
        "tasks": float(last.tasks - first.tasks),
        "sockets": float(last.sockets - first.sockets),
        "inside": float(last.inside - 1),
    }
    console.print(
        f"{connections} connections in {time.perf_counter() - began:.0f} s: {figures['slope'] * 1024:.0f} bytes each, "
        f"{figures['tasks']:.0f} tasks and {figures['sockets']:.0f} sockets left, {figures['inside']:.0f} inside"
    )
    return figures


def main() -> None:
    """Measures once."""
    with tempfile.TemporaryDirectory(prefix="fleetfoot-leaks-") as folder:
        measure(Path(folder), connections=int(sys.argv[1]) if len(sys.argv) > 1 else CONNECTIONS)


if __name__ == "__main__":
    main()
