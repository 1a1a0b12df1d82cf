"""Redis carries words, and nothing depends on hearing them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path

import pytest
from redis import Redis

from ingest.nudging import ACCEPTED, Announcer, JobNotices, Listener, RedisNudge
from pipeline.errors import UpstreamFailed
from workers.broker import EmbeddedRedis

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture(scope="module")
def broker() -> Generator[EmbeddedRedis, None, None]:
    with EmbeddedRedis.open() as server:
        yield server


@pytest.fixture
def url(broker: EmbeddedRedis) -> str:
    with Redis.from_url(broker.url) as client:
        client.flushall()
    return broker.url


async def test_many_nudges_wake_a_sweep_once(url: str) -> None:
    async with RedisNudge.open(url) as nudge:
        for _ in range(5):
            await nudge.nudge()
    with Listener.open(url, 1.0) as listener:
        assert listener.heard(0.1)
        assert not listener.heard(0.01)


async def test_a_broker_that_is_away_stops_nobody(url: str) -> None:
    async with RedisNudge.open(NOBODY) as nudge:
        await nudge.nudge()
        with pytest.raises(UpstreamFailed, match="FLEETFOOT_REDIS_URL"):
            await nudge.check()
    with Announcer.open(NOBODY) as announcer:
        announcer.moved(["job"])
    async with JobNotices.open(NOBODY, tick=0.01) as notices, aclosing(notices.watch("job")) as words:
        for _ in range(3):
            await anext(words)
    async with RedisNudge.open(url) as nudge:
        await nudge.check()


async def test_whoever_watches_a_job_hears_that_it_has_moved(url: str) -> None:
    async with (
        asyncio.timeout(20),
        JobNotices.open(url, tick=3600) as notices,
        aclosing(notices.watch("mine")) as words,
    ):
        await anext(words)
        await anext(words)  # subscribed
        with Announcer.open(url) as announcer:
            announcer.moved(["another"])
            announcer.moved(["mine", "mine"])
            await anext(words)
        with Redis.from_url(url) as client:
            assert client.llen(ACCEPTED) == 1


async def test_whoever_watches_looks_again_when_redis_says_nothing(url: str) -> None:
    async with JobNotices.open(url, tick=0.01) as notices, aclosing(notices.watch("mine")) as words:
        for _ in range(5):
            await anext(words)


def test_an_embedded_server_ends_with_its_block_and_leaves_no_file() -> None:
    with EmbeddedRedis.open() as server, Redis.from_url(server.url) as client:
        folder = client.config_get("dir")["dir"]
        client.set("key", "value")
    assert server.process.returncode is not None
    assert not Path(folder).exists()
