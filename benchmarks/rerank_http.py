"""`rerank.budget_ms` as a client of a real service sees it: one caller, ce-tiny, the example handbook.

    python -m benchmarks.rerank_http [--queries 60] [--json FILE]

The handbook is ingested into a new service with all caches off, and its questions are asked of `/v1/retrieve` with
budgets of 25, 50 and 100 ms and with none of its candidates reranked, by turns. Printed: the rerank stage as the
response tells it (p50 and p99), pairs scored, and by how much the whole response is longer than without reranking:
what the stage adds to what the client waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.rerank_budget import BUDGETS, CE_TINY, DEPTH, quantile
from benchmarks.service import service
from fleetfoot.client import Client, StageTiming, connect
from fleetfoot.demo import free_port
from fleetfoot.ingesting import ingest
from tests.examples.handbook import HANDBOOK, questions

COLLECTION = "handbook"
SETTINGS = {
    "FLEETFOOT_CACHED_QUERIES": "0",
    "FLEETFOOT_CACHED_RETRIEVALS": "0",
    "FLEETFOOT_CACHED_SCORES": "0",
    "FLEETFOOT_SINGLE_FLIGHT": "false",
}
WARM_UP = 10


@dataclass
class Seen:
    """Of one budget, milliseconds; 0 is no reranking at all."""

    budget_ms: float
    stage: list[float] = field(default_factory=list[float])
    whole: list[float] = field(default_factory=list[float])
    pairs: list[int] = field(default_factory=list[int])


async def asked(client: Client, query: str, of: Seen) -> None:
    """One request."""
    rerank = {"depth": DEPTH, "budget_ms": of.budget_ms} if of.budget_ms else {"depth": 0}
    body = {"query": query, "collection": COLLECTION, "deadline_ms": 2000, "rerank": rerank}
    began = time.perf_counter()
    found = await client.post("/v1/retrieve", body)
    of.whole.append(1000 * (time.perf_counter() - began))
    (result,) = found["results"]
    laps = [lap for lap in StageTiming.read(result["timings"]) if lap.stage == "rerank"]
    of.stage.append(sum(lap.waited_ms + lap.worked_ms for lap in laps))
    of.pairs.append(scored(result))


def scored(result: dict[str, Any]) -> int:
    """Pairs, from what was given up: all of them where nothing was."""
    told = [one["detail"] for one in result["degraded"] if one["stage"] == "rerank"]
    numbers = [re.match(r"scored (\d+) of", detail) for detail in told]
    return next((int(number[1]) for number in numbers if number), DEPTH)


async def measure(url: str, queries: int, console: Console) -> list[Seen]:
    seen = [Seen(0.0), *(Seen(budget * 1000) for budget in BUDGETS)]
    texts = [question.text for question in questions()]
    async with connect(url) as client:
        await ingest(client, COLLECTION, [HANDBOOK], console, wait=True)
        for text in texts[:WARM_UP]:
            await asked(client, text, Seen(50.0))
        for number in range(queries):
            for of in seen[number % len(seen) :] + seen[: number % len(seen)]:
                await asked(client, texts[number % len(texts)], of)
    return seen


def show(seen: list[Seen], console: Console) -> None:
    table = Table(title="one caller through HTTP, ce-tiny, the handbook; ms", title_justify="left")
    for column in ("budget", "stage p50", "p99", "pairs", "whole p50", "p99", "longer than without, p50"):
        table.add_column(column, justify="right")
    without = seen[0]
    for of in seen:
        table.add_row(
            f"{of.budget_ms:.0f}" if of.budget_ms else "none",
            *(f"{value:.1f}" for value in (median(of.stage), quantile(of.stage, 0.99))),
            f"{mean(of.pairs):.1f}" if of.budget_ms else "",
            *(f"{value:.1f}" for value in (median(of.whole), quantile(of.whole, 0.99))),
            f"{median(of.whole) - median(without.whole):.1f}" if of.budget_ms else "",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console(width=120)
    if not (CE_TINY / "model.onnx").is_file():
        console.print("nothing is measured: ../shared/models/ce-tiny is not here")
        return
    settings = {**SETTINGS, "FLEETFOOT_RERANKER": str(CE_TINY.resolve())}
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder), free_port(8090, console), settings=settings) as running,
    ):
        seen = asyncio.run(measure(running.url, given.queries, console))
    show(seen, console)
    if given.json:
        given.json.write_text(json.dumps([asdict(of) for of in seen], indent=1))


if __name__ == "__main__":
    main()
