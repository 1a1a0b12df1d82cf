"""What the first requests after a start take, with the warm-up and without, through HTTP.

    python -m benchmarks.first_requests [--rounds 5] [--json FILE]

The example handbook is published once. Then services are started one after the other, by turns with the warm-up and
without, and asked forty different questions each by one caller, with all caches off. The first is measured by the tenth
and those after it; how long it takes until the service listens stands beside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.service import CACHES_OFF, service
from fleetfoot.client import connect
from fleetfoot.demo import free_port, until_ready
from fleetfoot.ingesting import ingest
from fleetfoot.processes import child
from tests.examples.handbook import HANDBOOK
from workers.broker import EmbeddedRedis

SEED = 20261130
WORDS = (
    "refund ticket train snow bridge whistle driver tunnel marmot goat summit tea dog lost purse counter fare child "
    "winter timetable station gusts steam coal Sunday locomotive paid kept found table window season pass bicycle"
).split()
ASKED = 40
ROWS = ("first", "second", "third", "tenth", "later")
WAYS = {"warmed": "10", "cold": "0"}


def measure(data: Path, rounds: int, console: Console) -> dict[str, float]:
    """Starts services on a published handbook, prints a table and returns its figures, each a median over the rounds.

    They are named `WAY_ROW_ms`, `WAY_starts_s`, and `WAY_ratio` for the first request by those from the eleventh on.
    """
    taken: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with EmbeddedRedis.open() as redis:
        for number in range(rounds):
            for way, seconds in WAYS.items():
                taken[way].append(asyncio.run(_started(data, redis.url, seconds, SEED + number)))
    rows = Table(title=f"Requests after a start, ms, medians of {rounds} starts each")
    for heading in ("", *ROWS, "first / later", "until it listens, s"):
        rows.add_column(heading, justify="right" if heading else "left")
    figures: dict[str, float] = {}
    for way, starts in taken.items():
        middle = {name: median(start[name] for start in starts) for name in starts[0]}
        figures |= {f"{way}_{name}_ms": middle[name] for name in ROWS}
        figures |= {f"{way}_ratio": middle["ratio"], f"{way}_starts_s": middle["starts"]}
        shown = [*(f"{middle[name]:.1f}" for name in ROWS), f"{middle['ratio']:.2f}", f"{middle['starts']:.1f}"]
        rows.add_row(way, *shown)
    console.print(rows)
    return figures


def publish(data: Path) -> None:
    """Sends the handbook and waits until it can be searched."""

    async def send(url: str) -> None:
        async with connect(url) as client:
            await ingest(client, "handbook", [HANDBOOK], Console(quiet=True), wait=True)

    with service(data, free_port(0, Console(quiet=True))) as running:
        asyncio.run(send(running.url))


async def _started(data: Path, redis_url: str, warm_up: str, seed: int) -> dict[str, float]:
    """One start, and the times of its first questions."""
    port = free_port(0, Console(quiet=True))
    settings: Mapping[str, str] = {
        **CACHES_OFF,
        "FLEETFOOT_DATA_DIR": str(data),
        "FLEETFOOT_REDIS_URL": redis_url,
        "FLEETFOOT_PORT": str(port),
        "FLEETFOOT_WARM_UP_SECONDS": warm_up,
    }
    log, url, random = data / "logs" / "first.log", f"http://127.0.0.1:{port}", Random(seed)
    began = time.perf_counter()
    with child(["serve"], settings, log) as api:
        await until_ready(url, api, log)
        starts = time.perf_counter() - began
        took: list[float] = []
        async with connect(url) as client:
            for _ in range(ASKED):
                question = " ".join(random.sample(WORDS, random.randint(2, 12)))
                body = {"query": question, "collection": "handbook", "deadline_ms": 20_000, "rerank": {"depth": 0}}
                asked = time.perf_counter()
                await client.post("/v1/retrieve", body)
                took.append((time.perf_counter() - asked) * 1000)
    later = median(took[10:])
    return {
        "first": took[0], "second": took[1], "third": took[2], "tenth": took[9],
        "later": later, "ratio": took[0] / later, "starts": starts,
    }  # fmt: skip


def main() -> None:
    """The benchmark's own command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        publish(data)
        figures = measure(data, given.rounds, console)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
