"""The second level in a real Redis: shared while it is there, missed by nobody when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from pipeline.caching import key_of
from pipeline.clock import Budget, Clock
from pipeline.errors import Misconfigured
from pipeline.second_level import GuardedLevel, GuardOptions
from retrieve.cached import CachedRetriever, retrieval_key
from retrieve.remote_cache import RedisCache, RedisCacheOptions
from tests.fakes_shelf import make_passage
from tests.generations import published
from tests.searching import query, searching, until
from workers.broker import EmbeddedRedis

A, B = key_of("test", "a"), key_of("test", "b")
PATIENT = GuardOptions(patience=5.0)  # a loaded machine's slowness is another test's matter


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis.open() as running:
        yield running


@pytest.fixture
async def inspected(broker: EmbeddedRedis) -> AsyncIterator[Redis]:
    """A client of our own, of an empty server."""
    async with Redis.from_url(broker.url) as client:
        await client.flushall()
        yield client


async def written(cache: RedisCache, client: Redis, keys: int) -> None:
    """Waits until so many keys are there and none is in line."""
    for _ in range(1000):
        if not cache.waiting and await client.dbsize() == keys:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{await client.dbsize()} keys are there, and {cache.waiting} wait")


async def test_what_one_instance_puts_another_gets(broker: EmbeddedRedis, inspected: Redis) -> None:
    async with RedisCache.open(broker.url) as one, RedisCache.open(broker.url) as other:
        one.put_many({A: b"a", B: bytes(2000)})
        await written(one, inspected, 2)
        assert await other.get_many([B, key_of("test", "c"), A]) == [bytes(2000), None, b"a"]


async def test_values_do_not_stay_for_ever(broker: EmbeddedRedis, inspected: Redis) -> None:
    async with RedisCache.open(broker.url, RedisCacheOptions(seconds=100)) as cache:
        cache.put_many({A: b"a"})
        await written(cache, inspected, 1)
    (name,) = await inspected.keys()
    assert name == b"fleetfoot:cache:1:" + A
    assert 0 < await inspected.ttl(name) <= 100


async def test_what_is_too_much_is_dropped_and_counted(broker: EmbeddedRedis, inspected: Redis) -> None:
    async with RedisCache.open(broker.url, RedisCacheOptions(line=3, batch=2)) as cache:
        cache.put_many({key_of("test", str(number)): b"x" for number in range(5)})
        assert (cache.waiting, cache.dropped) == (3, 2)
        await written(cache, inspected, 3)


async def test_another_kind_of_value_under_our_key_is_no_value(broker: EmbeddedRedis, inspected: Redis) -> None:
    await inspected.rpush(b"fleetfoot:cache:1:" + A, "a list")
    async with RedisCache.open(broker.url) as cache:
        assert await cache.get_many([A]) == [None]


async def test_nobody_there_is_an_error_of_the_network() -> None:
    async with RedisCache.open("redis://127.0.0.1:1/0") as cache:
        with pytest.raises(OSError, match="Redis does not answer"):
            await cache.get_many([A])


async def test_an_address_that_is_none_is_said_at_the_start() -> None:
    with pytest.raises(Misconfigured, match="FLEETFOOT_CACHE_REDIS_URL"):
        async with RedisCache.open("127.0.0.1:6379"):
            pass


async def test_a_write_that_fails_drops_its_values_and_the_next_one_works(
    broker: EmbeddedRedis, inspected: Redis
) -> None:
    async with RedisCache.open(broker.url, RedisCacheOptions(rest=0.01)) as cache:
        await inspected.config_set("maxmemory", "1")  # as a full server: it refuses every write
        try:
            cache.put_many({A: b"a"})
            await until(lambda: cache.dropped == 1)
        finally:
            await inspected.config_set("maxmemory", "0")
        cache.put_many({B: b"b"})
        await written(cache, inspected, 1)
        assert await cache.get_many([A, B]) == [None, b"b"]


async def test_retrievals_are_shared_and_neither_query_nor_passage_can_be_read(
    broker: EmbeddedRedis, inspected: Redis, tmp_path: Path
) -> None:
    passages = [make_passage("h", 0, "salaries are paid on mondays", language="en")]
    with searching(published(tmp_path, passages)) as served:
        async with RedisCache.open(broker.url) as one, RedisCache.open(broker.url) as other:
            found = []
            for level in (one, other):
                guarded = GuardedLevel(level, PATIENT)
                cached = CachedRetriever.open(served.retriever, served.generations, retrieval_key("x"), second=guarded)
                found.append((await cached.retrieve(query("salaries"), Clock(Budget()))).items)
                await written(level, inspected, 1)
            assert found[0] == found[1]
            assert (cached.counts.shared_hits, cached.counts.computed) == (1, 0)
    (name,) = await inspected.keys()
    assert b"salar" not in name + await inspected.get(name)


async def test_a_server_that_is_killed_in_between_costs_nothing_but_hits(tmp_path: Path) -> None:
    passages = [make_passage(f"h{n}", 0, f"tram number {n}", language="en") for n in range(3)]
    with EmbeddedRedis.open() as doomed, searching(published(tmp_path, passages)) as served:
        async with RedisCache.open(doomed.url) as level, Redis.from_url(doomed.url) as client:
            guarded = GuardedLevel(level, PATIENT)
            cached = CachedRetriever.open(served.retriever, served.generations, retrieval_key("x"), second=guarded)
            for number in range(6):
                asked = query(f"tram number {number}")
                found = await cached.retrieve(asked, Clock(Budget()))
                assert found.items == (await served.retriever.retrieve(asked, Clock(Budget()))).items
                assert found.degraded == ()
                if number == 2:
                    await written(level, client, 3)
                    doomed.process.kill()
                    doomed.process.wait()
            assert cached.counts.computed == 6
            assert guarded.failed >= 1


async def test_after_one_who_gave_up_waiting_nobody_gets_his_answer(broker: EmbeddedRedis, inspected: Redis) -> None:
    async with RedisCache.open(broker.url) as cache:
        cache.put_many({A: b"a", B: b"b"})
        await written(cache, inspected, 2)
        assert await GuardedLevel(cache, PATIENT).get_many([key_of("test", "c")]) == [None]
        await inspected.client_pause(100)
        hurried = GuardedLevel(cache, GuardOptions(patience=0.005))
        assert await hurried.get_many([A]) == [None]
        assert hurried.failed == 1
        assert await cache.get_many([B]) == [b"b"]
