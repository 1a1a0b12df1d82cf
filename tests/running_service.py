"""The real service for tests: `fleetfoot serve` and `fleetfoot work` as processes, over a data folder of their own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fleetfoot.processes import end
from retrieve.model_library import ModelLibrary

ROOT = Path(__file__).resolve().parents[1]
HANDBOOK = ROOT / "examples" / "handbook"
PATIENCE = 90.0  # seconds after which a process that does not come up, or a job that does not end, has failed
LOOK = 0.05  # seconds between two looks at a log
# What a slow machine gives up is another room's matter; here every stage has all the time it wants.
PATIENT = {
    "DEADLINE_MS": "30000",
    "SHARES": json.dumps(dict.fromkeys(("encode", "lexical", "dense", "rerank"), 1)),
    "RERANK_BUDGET_MS": "30000",
}


MARKS = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


def clean_environment() -> dict[str, str]:
    """Ours, without what a developer's shell says about another fleetfoot."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETFOOT_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def command(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`fleetfoot ARGUMENTS`, until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "fleetfoot", *arguments],
        cwd=ROOT,
        env={**clean_environment(), **(env or {})},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@dataclass
class Running:
    """One process of the service; `log` is what it wrote so far."""

    process: subprocess.Popen[bytes]
    path: Path

    @property
    def log(self) -> str:
        return self.path.read_text(errors="replace")

    def ask_to_end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """The exit status, once it has one."""
        return self.process.wait(PATIENCE)

    def said(self, words: str) -> str:
        """Waits for a line with these words, and returns it. Raises AssertionError with the log if it never comes."""
        for _ in range(int(PATIENCE / LOOK)):
            over = self.process.poll() is not None
            for line in self.log.splitlines():
                if words in line:
                    return line
            if over:
                break
            time.sleep(LOOK)
        raise AssertionError(f"{words!r} was never said (exit {self.process.poll()}):\n{self.log[-4000:]}")


@dataclass
class Api(Running):
    """A serving process, and where it listens."""

    url: str = ""

    def client(self, key: str | None = None) -> aiohttp.ClientSession:
        """A session of its own; used with `async with`."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        return aiohttp.ClientSession(self.url, headers=headers, timeout=timeout, read_bufsize=2**20)

    def requests(self, request_id: str) -> list[dict[str, Any]]:
        """What the log tells of the request with this id; waits for it, since it is written after the answer left."""
        self.said(f'"request": "{request_id}"')
        lines = (json.loads(line) for line in self.log.splitlines() if line.startswith('{"time"'))
        return [line for line in lines if line["request"] == request_id]


@dataclass
class Site:
    """A data folder, the model in it, and a broker. Processes come and go."""

    data: Path
    redis_url: str
    started: int = field(default=0, repr=False)

    @classmethod
    def make(cls, data: Path, redis_url: str, model: Path) -> Site:
        """Raises nothing: the folder is new."""
        shutil.copytree(model, data / "models" / "default")
        return cls(data, redis_url)

    def environment(self, **settings: str) -> dict[str, str]:
        """For a process of this site; settings are given without their prefix."""
        given = {"DATA_DIR": str(self.data), "REDIS_URL": self.redis_url, "PORT": "0", "SWEEP_SECONDS": "0.5"}
        given |= PATIENT
        return clean_environment() | {f"FLEETFOOT_{name}": value for name, value in {**given, **settings}.items()}

    def start(self, what: str, **settings: str) -> Running:
        """A process that nobody waits for and nobody ends."""
        self.started += 1
        log = self.data / "logs" / f"{self.started}-{what}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "fleetfoot", what],
                cwd=ROOT,
                env=self.environment(**settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Running(process, log)

    @contextmanager
    def serving(self, **settings: str) -> Generator[Api, None, None]:
        """`fleetfoot serve`, from when it accepts connections on; what nobody foresaw may not be in its log."""
        running = self.start("serve", **settings)
        try:
            url = json.loads(running.said('"listening"'))["listening"]
            yield Api(running.process, running.path, url)
        finally:
            end(running.process)
        assert "Traceback" not in running.log, running.log[-4000:]

    @contextmanager
    def working(self, **settings: str) -> Generator[Running, None, None]:
        """`fleetfoot work`; it may still be coming up when the block begins."""
        running = self.start("work", **settings)
        try:
            yield running
        finally:
            end(running.process)
        assert "Traceback" not in running.log, running.log[-4000:]


def fetched_model() -> Path:
    """The default encoder's folder. Raises Misconfigured where it cannot be fetched."""
    return ModelLibrary(ROOT / ".data" / "models").add("default").folder


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; the name is empty where none was given."""

    name: str
    data: str

    def json(self) -> Any:
        return json.loads(self.data)


async def events(response: aiohttp.ClientResponse) -> AsyncGenerator[Event, None]:
    """A response's server-sent events, each as soon as its blank line has come."""
    name, data = "", list[str]()
    async for raw in response.content:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield Event(name, "\n".join(data))
            name, data = "", []
        elif line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


async def answered(client: aiohttp.ClientSession, method: str, path: str, status: int = 200, **asked: Any) -> Any:
    """The JSON answer to a request that must have this status."""
    async with client.request(method, path, **asked) as response:
        body = await response.json()
        assert response.status == status, body
        return body


async def sent(client: aiohttp.ClientSession, collection: str, **texts: str) -> Any:
    """Sends Markdown texts under these names (with .md), and returns the accepted job."""
    documents = [{"name": f"{name}.md", "text": text} for name, text in texts.items()]
    return await answered(client, "POST", f"/v1/collections/{collection}/documents", 202, json={"documents": documents})


async def finished(client: aiohttp.ClientSession, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it is final, followed by its events."""
    last: dict[str, Any] = job
    async with asyncio.timeout(PATIENCE), client.get(f"/v1/jobs/{job['id']}/events") as response:
        async for event in events(response):
            last = event.json()
    assert last["state"] in {"done", "failed", "cancelled"}, last
    return last


async def retrieved(
    client: aiohttp.ClientSession, query: str, collection: str | None = "handbook", **asked: Any
) -> Any:
    """The one result of a retrieval with a deadline that no loaded machine misses."""
    body = {"query": query, "collection": collection, "deadline_ms": 30_000, **asked}
    (result,) = (await answered(client, "POST", "/v1/retrieve", json=body))["results"]
    return result


def sources(result: Mapping[str, Any]) -> list[str]:
    """Where a result's passages come from, best first."""
    return [passage["source"] for passage in result["passages"]]
