"""What the caches are worth: the same questions of a service with all of them on, and of one with everything off.

    python -m benchmarks.caches [--requests 1200] [--exponent 1.0] [--json FILE]
    python -m benchmarks.caches --off URL --on URL [--sharing URL] [--new URL] --collection NAME --queries FILE

Questions are drawn by Zipf's law from a seed, as people ask: few of them often, most of them rarely. Each goes to all
services by turns in one run, from one caller, so that a busy machine is busy for all alike, and the answers must be
equal. `on` has its caches in memory; `sharing` has a Redis as well, which costs a miss two round trips; `new` starts
with nothing in memory beside the Redis that `sharing` has filled. Bursts of callers with one new question show what
single flight is worth. Without addresses the services are started here, on the example handbook, with a reranker where
`../shared/models/ce-tiny` lies beside the checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.load.queries import SAMPLE, Zipf, read
from benchmarks.service import CACHES_OFF, service
from fleetfoot.client import Client, Json, connect
from fleetfoot.demo import free_port, until_ready
from fleetfoot.ingesting import ingest
from fleetfoot.processes import child
from tests.examples.handbook import HANDBOOK
from workers.broker import EmbeddedRedis

RERANKER = Path(__file__).resolve().parents[1] / ".." / "shared" / "models" / "ce-tiny"
SEED = 20261130
WARM_UP = 20
BURSTS, CALLERS = 15, 16
FIGURES = ("median_ms", "p99_ms", "median_ratio", "p99_ratio", "known_ratio", "new_ratio")
CACHES = ("retrievals", "vectors", "rerank_scores")


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked of which collection: `requests` questions drawn from `texts`, each with the fields of `body`."""

    collection: str
    texts: Sequence[str]
    requests: int
    exponent: float = 1.0
    seed: int = SEED
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def drawn(self) -> list[str]:
        """The same for the same seed."""
        places = Zipf(len(self.texts), self.exponent, self.seed).draws(self.seed)
        return [self.texts[place] for place in islice(places, self.requests)]


@dataclass
class Seen:
    """One service's answers: milliseconds as the client saw them, and how much of what was asked its caches had."""

    took: list[float] = field(default_factory=list[float])
    known: list[bool] = field(default_factory=list[bool])
    hits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CACHES, 0))
    asked: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CACHES, 0))

    def add(self, result: Json, took: float) -> None:
        """Takes in one answer."""
        self.took.append(took)
        uses = result["timings"]["caches"]
        self.known.append(uses.get("retrievals", {"hits": 0})["hits"] > 0)
        for name, use in uses.items():
            self.hits[name] += use["hits"]
            self.asked[name] += use["asked"]

    def median(self) -> float:
        return float(np.median(self.took))

    def ratio(self, off: Seen, *, known: bool) -> float:
        """Of the medians of the other's times and of these, for the requests whose retrieval was known here, or was
        not; not a number where there was none."""
        chosen = [place for place, was in enumerate(self.known) if was is known]
        if not chosen:
            return float("nan")
        return float(
            np.median([off.took[place] for place in chosen]) / np.median([self.took[place] for place in chosen])
        )

    def p99(self) -> float:
        return float(np.percentile(self.took, 99))

    def rate(self, cache: str) -> float:
        """The part of what was asked that was there; not a number where nothing was asked."""
        return self.hits[cache] / self.asked[cache] if self.asked[cache] else float("nan")


def measure(services: Mapping[str, str], questions: Questions, console: Console, title: str) -> dict[str, float]:
    """Asks all services, `off` among them, by turns; prints a table; returns its figures.

    Figures are named `SERVICE_median_ms`, `SERVICE_p99_ms`, `SERVICE_median_ratio` (off / SERVICE), `…_p99_ratio`,
    `…_known_ratio` and `…_new_ratio` (of medians, for requests whose retrieval was known there, or was not),
    `SERVICE_CACHE_hit_rate`, and `different`: answers that were complete and not equal to those of `off`.
    """
    seen, different = asyncio.run(_asked(services, questions))
    rows = Table(title=f"{title}: {questions.requests} requests, {len(questions.texts)} questions, ms")
    headings = ("service", "median", "p99", "ratio of medians", "of p99", "of known ones", "of new ones")
    for heading in (*headings, *(f"{cache} had" for cache in CACHES)):
        rows.add_column(heading, justify="left" if heading == "service" else "right")
    figures: dict[str, float] = {"different": float(different)}
    off = seen["off"]
    for name, its in seen.items():
        figures |= {
            f"{name}_median_ms": its.median(),
            f"{name}_p99_ms": its.p99(),
            f"{name}_median_ratio": off.median() / its.median(),
            f"{name}_p99_ratio": off.p99() / its.p99(),
            f"{name}_known_ratio": its.ratio(off, known=True),
            f"{name}_new_ratio": its.ratio(off, known=False),
        }
        figures |= {f"{name}_{cache}_hit_rate": its.rate(cache) for cache in CACHES}
        rows.add_row(
            name,
            *(_number(figures[f"{name}_{figure}"]) for figure in FIGURES),
            *("" if np.isnan(its.rate(cache)) else f"{its.rate(cache):.0%}" for cache in CACHES),
        )
    console.print(rows)
    console.print(f"answers that differ from those without a cache: {different}")
    return figures


def measure_bursts(services: Mapping[str, str], collection: str, console: Console) -> dict[str, float]:
    """Callers who ask one new question at the same time; milliseconds until the last of them has the answer."""
    took = asyncio.run(_bursts(services, collection))
    off = float(np.median(took["off"]))
    figures: dict[str, float] = {}
    for name, times in took.items():
        figures |= {f"{name}_burst_ms": float(np.median(times)), f"{name}_burst_ratio": off / float(np.median(times))}
    told = ", ".join(
        f"{name} {figures[f'{name}_burst_ms']:.1f} ms ({figures[f'{name}_burst_ratio']:.2f})" for name in took
    )
    console.print(f"{CALLERS} callers with one new question, median until the last is answered (ratio): {told}")
    return figures


async def _asked(services: Mapping[str, str], questions: Questions) -> tuple[dict[str, Seen], int]:
    seen = {name: Seen() for name in services}
    different = 0
    async with _clients(services) as clients:
        for number in range(WARM_UP):
            for client in clients.values():
                await _ask(client, questions, f"warm-up number {number} of {questions.collection}")
        for turn, text in enumerate(questions.drawn()):
            names = list(services)[turn % len(services) :] + list(services)[: turn % len(services)]
            answers: dict[str, Json] = {}
            for name in names:
                answers[name], took = await _ask(clients[name], questions, text)
                seen[name].add(answers[name], took)
            complete = [answer["passages"] for answer in answers.values() if not _gave_up(answer)]
            different += any(passages != complete[0] for passages in complete)
    return seen, different


async def _bursts(services: Mapping[str, str], collection: str) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in services}
    questions = Questions(collection, (), 0)
    async with _clients(services) as clients:
        for number in range(BURSTS):
            for name, client in clients.items():
                text = f"what does rule {number} say about trains, snow and tickets in the valley?"
                began = time.perf_counter()
                await asyncio.gather(*(_ask(client, questions, text) for _ in range(CALLERS)))
                took[name].append(1000 * (time.perf_counter() - began))
    return took


async def _ask(client: Client, questions: Questions, text: str) -> tuple[Json, float]:
    body = {"query": text, "collection": questions.collection, "deadline_ms": 30_000, **questions.body}
    began = time.perf_counter()
    answer = await client.post("/v1/retrieve", body)
    took = 1000 * (time.perf_counter() - began)
    (result,) = answer["results"]
    return result, took


def _gave_up(answer: Json) -> bool:
    return any(each["reason"] != "not_configured" for each in answer["degraded"])


class _clients:  # noqa: N801  reads as a verb where it is used
    """A client for each service, open together."""

    def __init__(self, services: Mapping[str, str]) -> None:
        self._opening = {name: connect(url) for name, url in services.items()}

    async def __aenter__(self) -> dict[str, Client]:
        return {name: await opening.__aenter__() for name, opening in self._opening.items()}

    async def __aexit__(self, *error: Any) -> None:
        for opening in self._opening.values():
            await opening.__aexit__(*error)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


@contextmanager
def four_services(folder: Path, console: Console) -> Generator[dict[str, str]]:
    """`off`, `on`, `sharing` and `new`, over one data folder that holds the handbook; the last two share a Redis."""
    reranker = {"FLEETFOOT_RERANKER": str(RERANKER.resolve())} if RERANKER.is_dir() else {}
    with (
        service(folder, free_port(8090, console), settings={**reranker, **CACHES_OFF}) as off,
        EmbeddedRedis.open() as cache,
        _beside(off.environment, "", folder / "logs" / "on.log", console) as on,
        _beside(off.environment, cache.url, folder / "logs" / "sharing.log", console) as sharing,
        _beside(off.environment, cache.url, folder / "logs" / "new.log", console) as new,
    ):

        async def fill() -> None:
            async with connect(off.url) as client:
                await ingest(client, "handbook", [HANDBOOK], console, wait=True)

        asyncio.run(fill())
        yield {"off": off.url, "on": on, "sharing": sharing, "new": new}


@contextmanager
def _beside(environment: Mapping[str, str], cache: str, log: Path, console: Console) -> Generator[str]:
    """Another API over the same data, with every cache on; without an address of a Redis in memory alone."""
    port = free_port(0, console)
    url = f"http://127.0.0.1:{port}"
    settings = dict.fromkeys(CACHES_OFF, "") | {"FLEETFOOT_PORT": str(port), "FLEETFOOT_CACHE_REDIS_URL": cache}
    with child(["serve"], {**environment, **settings}, log) as api:
        asyncio.run(until_ready(url, api, log))
        yield url


def measured(services: Mapping[str, str], questions: Questions, console: Console) -> dict[str, dict[str, float]]:
    """Every table: searches alone, searches with reranking where there is a reranker, and bursts.

    A service named `new` is asked after the others, so that it finds in Redis what they left there.
    """
    first = {name: url for name, url in services.items() if name != "new"}
    alone = _with(questions, {"rerank": {"depth": 0}})
    figures = {"searches": measure(first, alone, console, "searches, no rerank")}
    if "new" in services:
        then = {name: services[name] for name in ("off", "new")}
        figures["new instance"] = measure(then, alone, console, "a new instance beside a full Redis")
    if RERANKER.is_dir():
        deep = _with(questions, {"rerank": {"depth": 20, "budget_ms": 1000}})
        figures["reranked"] = measure(first, deep, console, "searches with 20 passages reranked")
    figures["bursts"] = measure_bursts(first, questions.collection, console)
    return figures


def _with(questions: Questions, body: Mapping[str, Any]) -> Questions:
    return Questions(
        questions.collection, questions.texts, questions.requests, questions.exponent, questions.seed, body
    )


def main() -> None:
    """Prints every table; with addresses of running services, of those."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--off", help="a service with all caches and single flight off")
    parser.add_argument("--on", help="one over the same data with its caches on")
    parser.add_argument("--sharing", help="one that has a Redis for its caches as well")
    parser.add_argument("--new", help="one that has just been started, with the same Redis as --sharing")
    parser.add_argument("--collection", default="handbook")
    parser.add_argument("--queries", type=Path, default=SAMPLE, help="a query a line, or BEIR's queries.jsonl")
    parser.add_argument("--requests", type=int, default=1200)
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law; 0: all equally often")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    asked = parser.parse_args()
    console = Console(width=150)
    questions = Questions(asked.collection, read(asked.queries), asked.requests, asked.exponent)
    given = {name: url for name in ("off", "on", "sharing", "new") if (url := getattr(asked, name))}
    if given:
        figures = measured(given, questions, console)
    else:
        with tempfile.TemporaryDirectory() as folder, four_services(Path(folder), console) as services:
            figures = measured(services, questions, console)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
