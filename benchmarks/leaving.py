"""How long work goes on after its client has left: in search, rerank, prefill and tokens, streaming or not.

The stages are the real ones over real sockets, with a model server that never finishes. Search and rerank are held by
a gate in front of the real stage, so that there is a moment to leave in; what is measured is from the client breaking
its connection until the held stage is cancelled, or until the model server sees its own connection closed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from api.assembly import DoorOptions, create_app
from api.serving import ServingOptions, listen, server
from assembly import RequestOptions, StorageOptions, UpstreamOptions, open_request_stages
from pipeline.clock import Clock
from pipeline.passages import Candidates, Query, Ranking
from pipeline.ports import Reranker, Retriever
from tests.upstream import FakeUpstream, Script

PHASES = ("search", "rerank", "prefill", "tokens")
TIMES = 10
PATIENCE = 10.0  # seconds after which work that goes on counts as never ended


@dataclass
class Gate:
    """Holds whoever comes, tells that they came, and when they were cancelled."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold(self) -> None:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@dataclass
class HeldRetriever:
    """The real retriever behind a gate; without a gate it goes straight through."""

    retriever: Retriever
    gate: Gate | None = None

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        if self.gate:
            await self.gate.hold()
        return await self.retriever.retrieve(query, clock)


@dataclass
class HeldReranker:
    """The real reranker behind a gate."""

    reranker: Reranker
    gate: Gate | None = None

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:
        if self.gate:
            await self.gate.hold()
        return await self.reranker.rerank(query, candidates, clock)


@dataclass
class Held:
    """A service whose stages can be held."""

    port: int
    upstream: FakeUpstream
    retriever: HeldRetriever
    reranker: HeldReranker


def after_leaving(data: Path, redis_url: str, collection: str) -> dict[str, list[float]]:
    """Seconds from leaving to the end of the work, for each `phase, streamed or not`."""
    return asyncio.run(_after_leaving(data, redis_url, collection))


async def _after_leaving(data: Path, redis_url: str, collection: str) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {}
    async with held_service(data, redis_url) as held:
        for phase in PHASES:
            for stream in (False, True):
                name = f"{phase}, {'streaming' if stream else 'whole'}"
                took[name] = [await _leave(held, collection, phase, stream=stream) for _ in range(TIMES)]
    return took


@asynccontextmanager
async def held_service(data: Path, redis_url: str) -> AsyncGenerator[Held]:
    """The app on a free port, in this process, over the data of a service that has ingested."""
    async with FakeUpstream(Script(before_first=inf)) as upstream:
        options = RequestOptions(StorageOptions(data), redis_url, upstream=UpstreamOptions(upstream.url, "demo"))
        async with open_request_stages(options) as stages:
            retriever = HeldRetriever(stages.answering.retriever)
            reranker = HeldReranker(stages.answering.reranker)
            answering = replace(stages.answering, retriever=retriever, reranker=reranker)
            app = create_app(replace(stages, answering=answering), DoorOptions())
            serving_options = ServingOptions(port=0, grace=1)
            serving = server(app, serving_options)
            with listen(serving_options) as listening:
                task = asyncio.create_task(serving.serve([listening]))
                try:
                    yield Held(listening.getsockname()[1], upstream, retriever, reranker)
                finally:
                    serving.should_exit = True
                    await task


async def _leave(held: Held, collection: str, phase: str, *, stream: bool) -> float:
    gate = Gate()
    held.retriever.gate = gate if phase == "search" else None
    held.reranker.gate = gate if phase == "rerank" else None
    held.upstream.script = Script(before_first=inf) if phase == "prefill" else Script(between=inf)
    arrived = len(held.upstream.received)
    reader, writer = await asyncio.open_connection("127.0.0.1", held.port)
    question = {"role": "user", "content": "What does the driver do when a marmot sits on the track?"}
    body = json.dumps({"model": collection, "messages": [question], "stream": stream}).encode()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    async with asyncio.timeout(PATIENCE):
        if phase in {"search", "rerank"}:
            await gate.reached.wait()
            ended = gate.ended
        else:
            received = await held.upstream.nth(arrived)
            await (received.begun if phase == "prefill" else received.speaking).wait()
            ended = received.left
    left = time.perf_counter()
    writer.transport.abort()
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    del reader
    return time.perf_counter() - left
