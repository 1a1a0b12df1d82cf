"""A file of the current generation rots: the one before it serves and says so, until the collection is made anew."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from tests.running_service import MARKS, Site, answered, command, finished, retrieved, sent, sources
from workers.broker import EmbeddedRedis

pytestmark = MARKS

LEXICAL = {"search": {"legs": ["lexical"]}, "rerank": {"depth": 0}}


def flip_a_byte(site: Site, generation: int) -> str:
    """In the middle of one file of that generation's only segment; returns the file's name."""
    (manifest,) = (site.data / "generations").glob(f"*/g{generation}/manifest.json")
    (name,) = set(re.findall(r'"(base-[0-9a-f]{16})"', manifest.read_text()))
    file = manifest.parents[1] / "segments" / name / "posting_rows.npy"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    return file.name


async def test_after_a_restart_over_a_damaged_generation_the_one_before_serves_until_a_refresh(
    model: Path, tmp_path: Path
) -> None:
    with EmbeddedRedis.open() as redis:
        site = Site.make(tmp_path / "data", redis.url, model)
        with site.working():
            with site.serving() as api:
                async with api.client() as client:
                    await finished(client, await sent(client, "rules", tram="The night tram leaves at six."))
                    done = await finished(client, await sent(client, "rules", ferry="The ferry leaves at seven."))
                    before = await retrieved(client, "leaves", "rules", **LEXICAL)
            number = done["generation"]
            assert sorted(sources(before)) == ["ferry.md", "tram.md"]
            assert (before["generation"], before["degraded"]) == (f"rules@{number}", [])
            name = flip_a_byte(site, number)

            with site.serving() as api:
                async with api.client() as client:
                    earlier = await retrieved(client, "leaves", "rules", **LEXICAL)
                    assert (earlier["generation"], sources(earlier)) == (f"rules@{number - 1}", ["tram.md"])
                    assert earlier["degraded"] == [
                        {
                            "stage": "admit",
                            "reason": "earlier_generation",
                            "detail": f"rules@{number - 1} serves; rules@{number} is damaged",
                        }
                    ]
                    unwell = await answered(client, "GET", "/readyz", 503)
                    assert not unwell["checks"]["index"]["ok"]
                    assert str(tmp_path) not in json.dumps(unwell)
                    assert name in api.said("cannot be opened")

                    renewed = await asyncio.to_thread(command, "refresh", "--json", "-c", "rules", "--url", api.url)
                    assert renewed.returncode == 0, renewed.stderr
                    told = json.loads(renewed.stdout)
                    assert (told["counts"], told["generation"]) == ({"unchanged": 2}, number + 1)
                    after = await retrieved(client, "leaves", "rules", **LEXICAL)
                    assert (after["generation"], after["degraded"]) == (f"rules@{number + 1}", [])
                    assert sorted(sources(after)) == ["ferry.md", "tram.md"]
                    assert (await answered(client, "GET", "/readyz"))["status"] == "ready"


async def test_where_no_generation_opens_callers_are_told_the_remedy_and_no_path(model: Path, tmp_path: Path) -> None:
    with EmbeddedRedis.open() as redis:
        site = Site.make(tmp_path / "data", redis.url, model)
        with site.working(), site.serving() as api:
            async with api.client() as client:
                done = await finished(client, await sent(client, "rules", tram="The night tram leaves at six."))
        flip_a_byte(site, done["generation"])
        with site.serving() as api:
            async with api.client() as client:
                asked = {"query": "tram", "collection": "rules", "deadline_ms": 30_000}
                told = (await answered(client, "POST", "/v1/retrieve", 503, json=asked))["error"]
                assert told["code"] == "damaged_generation"
                assert "`fleetfoot refresh -c rules`" in told["message"]
                assert str(tmp_path) not in told["message"]
                with site.working():
                    job = await answered(client, "POST", "/v1/collections/rules/refresh", 202)
                    await finished(client, job)
                assert sources(await retrieved(client, "tram", "rules", **LEXICAL)) == ["tram.md"]
