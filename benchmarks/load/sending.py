"""A plan carried out over HTTP: `run` in this process and loop, `benchmarks.load.apart.run_apart` in one of its own.

The loop that sends must have nothing else to do, or lateness is measured that is not the service's.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, cast

import aiohttp
from yarl import URL

from benchmarks.load.answers import Stream, of_error, of_retrieval, sentence_of
from benchmarks.load.driving import Watching, drive
from benchmarks.load.plan import Kind, Plan, Target
from benchmarks.load.recording import UNANSWERED, Recording, Reply
from benchmarks.load.timer import ThreadTimer
from pipeline.errors import InvalidInput, Misconfigured

BUSY = frozenset({429, 503, 504})  # what a first request may get without being wrong
READ_AT_ONCE = 2**20


class Sender:
    """Asks one service what a plan asks. Opened with `async with Sender.open(…)`."""

    def __init__(self, session: aiohttp.ClientSession, plan: Plan, target: Target) -> None:
        self._session = session
        self._plan = plan
        self._base = URL(target.url.rstrip("/"))
        self._url = URL(target.url.rstrip("/") + plan.ask.path)
        self._bodies = [plan.ask.body(query) for query in plan.queries]

    @classmethod
    @asynccontextmanager
    async def open(cls, plan: Plan, target: Target) -> AsyncGenerator[Sender]:
        """A pool without a bound: whoever is due is sent. Raises Misconfigured for an address that is none."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=600)
        timeout = aiohttp.ClientTimeout(total=plan.patience)
        async with aiohttp.ClientSession(
            connector=connector,
            headers=target.sent_headers(),
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_AT_ONCE,
        ) as session:
            yield cls(session, plan, target)

    async def prepare(self) -> Mapping[str, Any]:
        """Asks who serves, asks once what the load will ask, and opens the connections. Returns what the service says
        of itself. Raises Misconfigured where nothing answers, InvalidInput where what would be asked is refused."""
        try:
            server = await self._about()
            async with self._session.post(self._url, data=self._bodies[0]) as response:
                body = await response.read()
                if response.status >= 400 and response.status not in BUSY:
                    raise InvalidInput(
                        f"The service refuses what would be asked ({response.status}): {sentence_of(body)}"
                    )
            await asyncio.gather(*(self._touch() for _ in range(self._plan.connections)))
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            reason = failure.os_error if isinstance(failure, aiohttp.ClientConnectorError) else failure
            raise Misconfigured(
                f"No fleetfoot answers at {self._base} ({type(failure).__name__}: {reason}). Start it with "
                "`fleetfoot serve`, or name another address."
            ) from failure
        return server

    async def ask(self, query: int) -> Reply:
        """One request, to its last byte. Whatever goes wrong is in the reply."""
        try:
            async with self._session.post(self._url, data=self._bodies[query]) as response:
                if response.status != 200:
                    body = await response.read()
                    return of_error(response.status, time.perf_counter(), body)
                if self._plan.ask.kind is Kind.RETRIEVE:
                    body = await response.read()
                    return of_retrieval(time.perf_counter(), body)
                return await _streamed(response)
        except TimeoutError:
            problem = "no_end_in_time"
        except aiohttp.ClientError as failure:
            problem = type(failure).__name__
        except OSError as failure:
            problem = type(failure).__name__
        except (ValueError, KeyError, TypeError):
            problem = "not_understood"
        return Reply(UNANSWERED, time.perf_counter(), problem)

    async def _about(self) -> Mapping[str, Any]:
        async with self._session.get(self._base / "") as response:
            told = cast("dict[str, Any]", await response.json())
        if told.get("name") != "fleetfoot":
            raise Misconfigured(f"What answers at {self._base} is not fleetfoot. Name the address of one.")
        return {"version": told.get("version"), "generator": told.get("generator"), **told.get("facts", {})}

    async def _touch(self) -> None:
        async with self._session.get(self._base / "healthz") as response:
            await response.read()


async def run(plan: Plan, target: Target, watch: Watching | None = None) -> Recording:
    """Carries out the plan from this loop. Raises Misconfigured where nothing answers, InvalidInput where what would
    be asked is refused; what goes wrong later is in the samples."""
    async with Sender.open(plan, target) as sender:
        server = await sender.prepare()
        with ThreadTimer.open() as timer:
            began, computed, at = time.time(), time.process_time(), time.perf_counter()
            samples = await drive(plan, sender.ask, timer, *([watch] if watch else []))
            busy = (time.process_time() - computed) / (time.perf_counter() - at)
    return Recording(plan, samples, server, generator(), busy, began)


def generator() -> dict[str, Any]:
    """What this side runs on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "python": platform.python_version(),
        "aiohttp": version("aiohttp"),
        "real_time": hasattr(os, "SCHED_RR") and os.sched_getscheduler(0) == os.SCHED_RR,
    }


async def _streamed(response: aiohttp.ClientResponse) -> Reply:
    stream = Stream()
    async for line in response.content:
        stream.take(line, time.perf_counter())
    return stream.reply(time.perf_counter())
