"""The real stages, on the handbook, beside a watchdog: nothing that a request does holds up the loop of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from fastapi import FastAPI

from api.assembly import DoorOptions, create_app
from api.running import request_options
from api.settings import Settings
from api.starting import warm_up
from assembly import open_request_stages
from tests.running_service import MARKS, PATIENT, Api, Site
from tests.served_here import served_here
from tests.service.conftest import TINY_RERANKER
from tests.watchdog import watchdog

pytestmark = MARKS

QUESTIONS = [
    f"{what} {when}"
    for what in ("How is a refund paid", "Where are lost things kept", "Who drives the snow plough", "Hunde im Zug")
    for when in ("on Sunday?", "in winter?", "at the summit station?", "before six in the morning?")
]


async def test_no_request_blocks_the_loop(site: Site, api: Api) -> None:
    settings = Settings(
        data_dir=Path(site.data),
        redis_url=site.redis_url,
        reranker=str(TINY_RERANKER.resolve()) if TINY_RERANKER.is_dir() else None,
        deadline_ms=float(PATIENT["DEADLINE_MS"]),
    )

    @asynccontextmanager
    async def opened() -> AsyncGenerator[FastAPI]:
        async with open_request_stages(request_options(settings)) as stages:
            app = create_app(stages, DoorOptions())
            await warm_up(app, stages.samples(), 20.0)
            yield app

    with served_here(opened) as here:
        async with aiohttp.ClientSession(here.url) as client:

            async def retrieve(question: str, **asked: object) -> None:
                body = {"query": question, "collection": "handbook", **asked}
                async with client.post("/v1/retrieve", json=body) as response:
                    assert response.status == 200, await response.text()
                    await response.read()

            async def chat(question: str, *, stream: bool) -> None:
                messages = [{"role": "user", "content": question}]
                body = {"model": "handbook", "messages": messages, "stream": stream}
                async with client.post("/v1/chat/completions", json=body) as response:
                    assert response.status == 200, await response.text()
                    await response.read()

            await asyncio.gather(chat("refund", stream=False), chat("refund", stream=True))  # what is made on first use
            with watchdog(here.loop, here.thread) as watching:
                await asyncio.gather(*(retrieve(question) for question in QUESTIONS))
                await asyncio.gather(*(chat(question, stream=True) for question in QUESTIONS[:8]))
                await asyncio.gather(*(chat(question, stream=False) for question in QUESTIONS[:8]))
                await retrieve(" ".join(QUESTIONS), top_k=200, token_budget=100_000, search={"candidates": 1000})
    assert not watching.found, watching.told()
