"""Kills real workers in the middle of an ingest, empties Redis too, and looks whether anything was lost or doubled."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.service import Service
from fleetfoot.client import Client, connect
from fleetfoot.processes import child

DOCUMENTS = 300
SEED = 11
WORDS = "lantern kettle marmot gradient sleeper whistle tunnel saddle ridge plough timetable coupling furnace".split()


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was there after recovery; `progress` is how many documents were done when the workers were killed."""

    progress: int
    lost: int
    doubled: int
    state: str


def kill_and_recover(running: Service, collection: str, *, wipe_redis: bool) -> Recovered:
    """One ingest with SIGKILL for the supervisor and every process below it, at the first sign of progress."""
    return asyncio.run(_kill_and_recover(running, collection, wipe_redis=wipe_redis))


async def _kill_and_recover(running: Service, collection: str, *, wipe_redis: bool) -> Recovered:
    rows = documents(collection)
    async with connect(running.url) as client:
        job = (await client.post(f"/v1/collections/{collection}/documents", {"documents": rows}))["id"]
        progress = await _some_progress(client, job)
        kill(running.workers.pop().pid)
        if wipe_redis:
            redis.Redis.from_url(running.redis_url).flushall()
        with child(["work"], running.environment, running.data / "logs" / f"worker-after-{collection}.log"):
            state = await _final_state(client, job)
            listed = await _names(client, collection)
            markers = await _markers(client, collection, [row["name"] for row in rows])
        lost = sum(listed[row["name"]] == 0 or markers[row["name"]] == 0 for row in rows)
        doubled = sum(count > 1 for count in (*listed.values(), *markers.values()))
        return Recovered(progress, lost, doubled, state)


def documents(collection: str) -> list[dict[str, str]]:
    """Documents of about 300 words, each with a marker that no other has."""
    chance = random.Random(SEED)
    return [
        {
            "name": f"{collection}-{number}",
            "text": f"Marker {marker(collection, number)}. " + " ".join(chance.choices(WORDS, k=300)),
        }
        for number in range(DOCUMENTS)
    ]


def marker(collection: str, number: int) -> str:
    """A word that stands in one document alone."""
    return f"zz{collection}{number:04d}zz"


def kill(pid: int) -> None:
    """SIGKILL for a process and everything below it, children first known, then all ended at once."""
    for process in [pid, *descendants(pid)]:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, from /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    line = [pid]
    while line:
        children = parents.get(line.pop(), [])
        found += children
        line += children
    return found


async def _some_progress(client: Client, job: str) -> int:
    """Waits until a fifth of the documents have moved on, so that some are in every state when it ends."""
    async for _, data in client.events("GET", f"/v1/jobs/{job}/events"):
        counts = Counter(json.loads(data)["counts"])
        moved = sum(counts.values()) - counts["accepted"]
        if moved > DOCUMENTS / 5 and counts["published"] < DOCUMENTS:
            return moved
    raise RuntimeError("the job was over before anything could be killed; raise DOCUMENTS")


async def _final_state(client: Client, job: str) -> str:
    state = "unknown"
    async with asyncio.timeout(180):
        async for _, data in client.events("GET", f"/v1/jobs/{job}/events"):
            state = str(json.loads(data)["state"])
    return state


async def _names(client: Client, collection: str) -> Counter[str]:
    names: Counter[str] = Counter()
    after = ""
    while True:
        page = await client.get(f"/v1/collections/{collection}/documents?limit=100{after}")
        names.update(document["name"] for document in page["data"])
        if page["next"] is None:
            return names
        after = f"&after={page['next']}"


async def _markers(client: Client, collection: str, names: list[str]) -> Counter[str]:
    """How many passages carry each document's marker, by searching for it."""
    found: Counter[str] = Counter()
    for number, name in enumerate(names):
        word = marker(collection, number)
        body = {
            "query": word,
            "collection": collection,
            "top_k": 5,
            "search": {"legs": ["lexical"]},
            "pack": {"similarity": 1.01},
            "deadline_ms": 10_000,
        }
        (result,) = (await client.post("/v1/retrieve", body))["results"]
        found[name] = sum(word in passage["text"] for passage in result["passages"])
    return found
