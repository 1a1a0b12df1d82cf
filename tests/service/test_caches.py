"""Caches in the real service: what they had is told, a publish is seen at once, and instances share through Redis."""

from __future__ import annotations

import re
from typing import Any

import aiohttp

from tests.running_service import MARKS, Site, finished, retrieved, sent, sources
from workers.broker import EmbeddedRedis

pytestmark = MARKS
QUESTIONS = [f"When does ferry number {number} cross?" for number in range(20)]


def uses(result: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """By cache: what it had of what it was asked for."""
    return {name: (use["hits"], use["asked"]) for name, use in result["timings"]["caches"].items()}


def stages(result: dict[str, Any]) -> set[str]:
    return {lap["stage"] for lap in result["timings"]["laps"]}


async def counted(client: aiohttp.ClientSession, name: str) -> dict[str, float]:
    """One tally of /metrics, by how."""
    async with client.get("/metrics") as response:
        text = await response.text()
    return {
        how: float(count)
        for how, count in re.findall(rf'^fleetfoot_{name}_total{{how="(\w+)"}} (\S+)$', text, re.MULTILINE)
    }


async def test_a_question_asked_again_is_answered_from_the_cache_until_something_is_published(site: Site) -> None:
    with site.serving() as api:
        async with api.client() as client:
            await finished(client, await sent(client, "cached", trams="# Trams\n\nThe night tram leaves at six."))
            first = await retrieved(client, "When does the night tram leave?", "cached")
            again = await retrieved(client, "When does the night tram leave?", "cached")
            assert uses(first) == {"retrievals": (0, 1), "vectors": (0, 1)}
            assert uses(again) == {"retrievals": (1, 1)}
            assert "cache" in stages(again)
            assert stages(again).isdisjoint({"encode", "lexical", "dense", "fuse"})
            assert again["passages"] == first["passages"]
            await finished(client, await sent(client, "cached", trams="# Trams\n\nThe night tram leaves at seven."))
            after = await retrieved(client, "When does the night tram leave?", "cached")
            assert "seven" in after["passages"][0]["text"]
            assert uses(after) == {"retrievals": (0, 1), "vectors": (1, 1)}
            assert await counted(client, "retrievals") == {"hit": 1, "shared_hit": 0, "joined": 0, "computed": 2}


async def test_an_instance_answers_with_what_another_found_and_does_without_when_redis_is_killed(site: Site) -> None:
    with EmbeddedRedis.open() as redis, site.serving(CACHE_REDIS_URL=redis.url) as one:
        async with one.client() as client:
            await finished(client, await sent(client, "shared", ferries="# Ferries\n\nFerries cross every hour."))
        with site.serving(CACHE_REDIS_URL=redis.url) as other:
            async with one.client() as first, other.client() as client:
                for turn in range(10):  # a look is bounded by milliseconds, and the machine may be busy for a while
                    for question in (f"{each} (Asked {turn} times before.)" for each in QUESTIONS):
                        before = await retrieved(first, question, "shared")
                        result = await retrieved(client, question, "shared")
                        assert result["passages"] == before["passages"]
                    counts = await counted(client, "retrievals")
                    if counts["shared_hit"] > 0:
                        break
                assert counts["shared_hit"] > 0
                assert counts["shared_hit"] + counts["computed"] == len(QUESTIONS) * (turn + 1)
                redis.process.kill()
                redis.process.wait()
                for number in range(12):
                    result = await retrieved(client, f"Which ferry is number {number}?", "shared")
                    assert sources(result) == ["ferries.md"]
                    assert not [each for each in result["degraded"] if each["reason"] != "not_configured"]


async def test_everything_can_be_turned_off(site: Site) -> None:
    off = {"CACHED_QUERIES": "0", "CACHED_RETRIEVALS": "0", "CACHED_SCORES": "0", "SINGLE_FLIGHT": "false"}
    with site.serving(**off) as api:
        async with api.client() as client:
            await finished(client, await sent(client, "uncached", soup="# Soup\n\nSoup is free on sundays."))
            for _ in range(2):
                result = await retrieved(client, "When is soup free?", "uncached")
                assert uses(result) == {}
                assert {"encode", "lexical", "dense"} <= stages(result)
                assert "cache" not in stages(result)
