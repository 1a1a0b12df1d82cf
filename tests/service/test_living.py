"""A collection of the real service changes, is rolled back and compacted, while it answers from what it shows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.running_service import MARKS, Site, answered, command, finished, retrieved, sent, sources
from workers.broker import EmbeddedRedis

pytestmark = MARKS

ASKED = {"rerank": {"depth": 0}, "top_k": 50, "deadline_ms": 30_000}
NOTES = {f"line{place}": f"Line {place} of the tram leaves at {place} past six." for place in range(12)}


async def generations(client: aiohttp.ClientSession) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await answered(client, "GET", "/v1/collections/trams/generations"))["data"]
    return found


async def texts(client: aiohttp.ClientSession) -> list[str]:
    found = await retrieved(client, "when does the tram leave", "trams", **ASKED)
    return sorted(passage["text"] for passage in found["passages"])


async def told(url: str, *words: str) -> dict[str, Any]:
    done = await asyncio.to_thread(command, "collections", *words, "--json", "--url", url)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


async def test_a_change_is_a_delta_is_rolled_back_and_is_compacted_away(model: Path, tmp_path: Path) -> None:
    with EmbeddedRedis.open() as redis:
        site = Site.make(tmp_path / "data", redis.url, model)
        with site.working(), site.serving() as api:
            async with api.client() as client:
                await finished(client, await sent(client, "trams", **NOTES))
                first = await texts(client)
                assert len(first) == 12
                await finished(
                    client, await sent(client, "trams", line3="Line 3 of the tram leaves at noon.", new="A new tram.")
                )
                changed = await texts(client)
                assert len(changed) == 13
                assert "Line 3 of the tram leaves at noon." in changed
                found = await generations(client)
                assert [(each["number"], each["segments"]) for each in found] == [(2, 2), (1, 1)]

                back = await told(api.url, "rollback", "trams", "1")
                assert (back["number"], back["restores"], back["documents"]) == (3, 1, 12)
                assert await texts(client) == first
                documents = await answered(client, "GET", "/v1/collections/trams/documents?limit=100")
                assert {each["name"] for each in documents["data"]} == {f"{name}.md" for name in NOTES}

                await finished(client, await sent(client, "trams", late="A late tram."))
                assert await texts(client) == sorted([*first, "A late tram."])
                forth = await told(api.url, "rollback", "trams", "2")
                assert await texts(client) == changed
                await told(api.url, "pin", "trams", "1")
                verified = await told(api.url, "verify", "trams")
                assert [each["ok"] for each in verified["data"]] == [True] * len(await generations(client))

                await told(api.url, "compact", "trams")
                for _ in range(600):
                    (newest, *_) = await generations(client)
                    if newest["number"] > forth["number"]:
                        break
                    await asyncio.sleep(0.1)
                assert (newest["segments"], newest["dead_share"], newest["documents"]) == (1, 0.0, 13)
                await until_read(client, newest["number"])
                assert await texts(client) == changed
                assert "new.md" in sources(await retrieved(client, "a new tram", "trams", **ASKED))


async def until_read(client: aiohttp.ClientSession, number: int) -> None:
    """Waits until the service has it open, and says so."""
    for _ in range(600):
        if (await generations(client))[0]["readers"]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"nobody reads generation {number}")
