"""A site of its own, where workers end and Redis goes away: what was accepted is done all the same, once."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.running_service import MARKS, PATIENCE, Api, Site, answered, events, finished, retrieved, sent, sources
from workers.broker import EmbeddedRedis

pytestmark = MARKS

FOREVER = {"LEASE_SECONDS": "3600"}  # nobody takes over what was not returned
DOCUMENTS = 48
WORDS = " lantern kettle marmot gradient sleeper whistle tunnel saddle ridge plough timetable coupling furnace" * 6


@dataclass(frozen=True, slots=True)
class Own:
    """A door without workers; each test starts its own."""

    site: Site
    api: Api
    redis: EmbeddedRedis


@pytest.fixture(scope="module")
def own(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Own, None, None]:
    with EmbeddedRedis.open() as redis:
        site = Site.make(tmp_path_factory.mktemp("own") / "data", redis.url, model)
        with site.serving() as api:
            yield Own(site, api, redis)


@pytest_asyncio.fixture(loop_scope="session")
async def at(own: Own) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with own.api.client() as session:
        yield session


async def test_what_was_accepted_waits_for_workers_and_what_was_cancelled_is_never_done(
    own: Own, at: aiohttp.ClientSession
) -> None:
    ready = await answered(at, "GET", "/readyz")
    assert ready["status"] == "ready", "workers that are away keep nobody from searching"
    assert ready["checks"].keys() == {"models", "index", "catalog", "broker", "upstream"}
    regretted = await sent(at, "waiting", a="The meeting is at noon.", b="The meeting is secret.")
    told = await answered(at, "POST", f"/v1/jobs/{regretted['id']}/cancel")
    assert (told["state"], told["counts"]) == ("cancelled", {"cancelled": 2})
    assert await finished(at, regretted) == told
    job = await sent(at, "waiting", c="The meeting is tomorrow.")
    assert (job["state"], job["counts"]) == ("accepted", {"accepted": 1})
    assert (await retrieved(at, "meeting", "waiting"))["passages"] == []
    with own.site.working():
        assert (await finished(at, job))["counts"] == {"published": 1}
        assert sources(await retrieved(at, "meeting", "waiting")) == ["c.md"]
    assert await answered(at, "POST", f"/v1/jobs/{regretted['id']}/cancel") == told
    assert (await answered(at, "GET", "/v1/collections/waiting"))["documents"] == 1


async def test_a_worker_asked_to_end_returns_its_task_and_the_next_one_finishes_the_job(
    own: Own, at: aiohttp.ClientSession
) -> None:
    texts = {f"d{number}": f"Marker zz{number:04}zz.{WORDS}" for number in range(DOCUMENTS)}
    job = await sent(at, "ended", **texts)
    with own.site.working(**FOREVER) as first:
        async with asyncio.timeout(PATIENCE), at.get(f"/v1/jobs/{job['id']}/events") as response:
            async for event in events(response):
                counts = event.json()["counts"]
                if counts.get("accepted", 0) < DOCUMENTS:
                    break
        first.ask_to_end()
        assert await asyncio.to_thread(first.ended) == 0
    left = await answered(at, "GET", f"/v1/jobs/{job['id']}")
    assert left["state"] == "running", "it ended in the middle"
    with own.site.working(**FOREVER):
        done = await finished(at, job)
    assert (done["state"], done["counts"]) == ("done", {"published": DOCUMENTS})
    assert (await answered(at, "GET", "/v1/collections/ended"))["documents"] == DOCUMENTS
    lexical = {"search": {"legs": ["lexical"]}, "pack": {"similarity": 2, "join_neighbours": False}, "top_k": 5}
    for number in (0, DOCUMENTS // 2, DOCUMENTS - 1):
        found = await retrieved(at, f"zz{number:04}zz", "ended", **lexical)
        assert sources(found) == [f"d{number}.md"]


async def test_while_redis_is_away_documents_are_accepted_and_when_it_is_back_they_are_done(
    own: Own, at: aiohttp.ClientSession
) -> None:
    with own.site.working() as worker:
        await finished(at, await sent(at, "away", before="Before it went away."))
        stop(own.redis.process)
        missing = await answered(at, "GET", "/readyz")
        assert missing["status"] == "ready", "every request is answered"
        assert [name for name, check in missing["checks"].items() if not check["ok"]] == ["broker"]
        assert "FLEETFOOT_REDIS_URL" in missing["checks"]["broker"]["detail"]
        job = await sent(at, "away", during="While it was away.")
        assert sources(await retrieved(at, "away", "away")) == ["before.md"], "searching needs no Redis"
        with started_again(own.redis):
            assert (await answered(at, "GET", "/readyz"))["status"] == "ready"
            done = await finished(at, job)
            assert (done["state"], done["counts"]) == ("done", {"published": 1})
            assert sorted(sources(await retrieved(at, "away", "away"))) == ["before.md", "during.md"]
            assert worker.process.poll() is None


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(PATIENCE)


@contextmanager
def started_again(redis: EmbeddedRedis) -> Generator[None, None, None]:
    """The same server at the same address, empty, until the block ends."""
    arguments: Any = redis.process.args
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if b"Ready to accept connections" in line:
                break
        yield
    finally:
        stop(process)
        process.stdout.close()
