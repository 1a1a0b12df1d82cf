"""What a proxy adds to the wait for a first token, with 32 streams at once: fleetfoot beside FastAPI with httpx.

    python -m benchmarks.proxying

Ways to one scripted model server, by turns in one run, each server in a process of its own and the reader in another:

    direct              no proxy: what the others are measured against
    httpx raw           FastAPI, httpx `stream()` and StreamingResponse over `aiter_raw`: the stated plain proxy
    httpx lines         the same over `aiter_lines`
    fleetfoot, little   the whole service with as little search as can be asked for: one leg, one passage
    fleetfoot           the whole service as it comes: four questions by turns, so that caches know them

Before each round a way has an unmeasured one, so that its connections to the model server are open, as in a service
that is in use. The prompts are as long for all; the plain proxies search nothing and parse nothing. Two loads: 32
streams asked for in one moment, and 32 at all times, a new one beginning as one ends. `added` is the first token's time
less the direct median. Fleetfoot's search is part of its time and no part of a proxy's: `less search` takes off the
time in which a search lap ran, by the timings that the answer itself tells, and the whole stands beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.prove_main import handbook
from benchmarks.retrieval import PEERS, make_peers
from benchmarks.service import service
from benchmarks.streaming import model_server
from benchmarks.streams import Reader, Stream, Way
from fleetfoot.demo import free_port
from fleetfoot.processes import end

ROOT = Path(__file__).resolve().parents[1]
STREAMS = 32
TOKENS = 60
BETWEEN_MS = 20.0  # 50 tokens a second for each, as vLLM gives on one GPU at this load
BEFORE_FIRST_MS = 50.0
MARK = b"the-first-of"
TEXT = " ".join([MARK.decode(), *(f"word-{number}" for number in range(TOKENS - 2)), "[1]."])
COLLECTION = "handbook"
QUESTIONS = (
    "What does the driver do when a marmot sits on the track?",
    "How many days of leave do I have?",
    "Where are shoes kept?",
    "Who sounds the whistle?",
)
LITTLE = {"top_k": 1, "search": {"legs": ["lexical"], "candidates": 1}, "rerank": {"depth": 0}}
SEARCH = frozenset({"cache", "encode", "lexical", "dense", "fuse", "rerank", "duplicates", "sizes", "pack"})
DIRECT, RAW, LINES, LITTLE_SEARCH, USUAL = "direct", "httpx raw", "httpx lines", "fleetfoot, little", "fleetfoot"
LOADS = ("at once", "steady")


@dataclass
class Seen:
    """What one way showed under one load; seconds."""

    firsts: list[float] = field(default_factory=list[float])
    searches: list[float] = field(default_factory=list[float])
    cpu: float = 0.0
    streams: int = 0


def measure(folder: Path, *, rounds: int = 10, console: Console | None = None) -> dict[str, float]:
    """Runs everything over a service in `folder`, prints the tables, returns the figures that a proof looks at.

    Figures, for each load ("at once", "steady"): `<load>: added, <way>` in ms, `<load>: ratio` (of medians, fleetfoot
    less search by httpx raw), and the same of the p99.
    """
    console = console or Console(width=150)
    make_peers()
    with (
        model_server(TEXT, BETWEEN_MS, "--before-first-ms", str(BEFORE_FIRST_MS), "--forgets") as upstream,
        plain_proxy(upstream, free_port(0, console)) as (plain, plain_pid),
        service(
            folder,
            free_port(0, console),
            settings={
                "FLEETFOOT_UPSTREAM_URL": upstream,
                "FLEETFOOT_UPSTREAM_MODEL": "demo",
                "FLEETFOOT_LOG_LEVEL": "INFO",
            },
        ) as running,
    ):
        handbook(running.url)
        for worker in running.workers:
            end(worker)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            ways = runner.run(all_ways(upstream, plain, running.url))
            processes = {RAW: plain_pid, LINES: plain_pid, LITTLE_SEARCH: running.api.pid, USUAL: running.api.pid}
            seen = runner.run(compare(ways, processes, rounds))
    return told(seen, console)


@contextmanager
def plain_proxy(upstream: str, port: int) -> Generator[tuple[str, int]]:
    """The plain proxy in its own environment and process; gives its address and process id, once it answers."""
    command = [PEERS / "bin" / "python", ROOT / "benchmarks" / "peers" / "proxy.py", str(port), upstream]
    process = subprocess.Popen(command)
    try:
        asyncio.run(_listening(port, process))
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(10)


async def _listening(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"the plain proxy ended with status {process.returncode}") from None
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError("the plain proxy did not come up within 30 s")


async def all_ways(upstream: str, plain: str, ours: str) -> list[Way]:
    """The five ways; the prompts of those that search nothing are what fleetfoot would find, laid out by the client."""
    sizes = {"stream": True, "stream_options": {"include_usage": True}}
    long: list[bytes] = []
    usual: list[bytes] = []
    little: list[bytes] = []
    async with aiohttp.ClientSession() as client:
        for question in QUESTIONS:
            asked = {"role": "user", "content": question}
            async with client.post(f"{ours}/v1/retrieve", json={"query": question, "collection": COLLECTION}) as found:
                (result,) = (await found.json())["results"]
            sources = "\n\n".join(f"[{passage['number']}] {passage['text']}" for passage in result["passages"])
            system = {"role": "system", "content": f"Answer from these sources and cite them.\n\n{sources}"}
            long.append(json.dumps({"model": "demo", "messages": [system, asked], **sizes}).encode())
            usual.append(json.dumps({"model": COLLECTION, "messages": [asked], **sizes}).encode())
            little.append(json.dumps({"model": COLLECTION, "messages": [asked], "retrieval": LITTLE, **sizes}).encode())
    end_point = "/v1/chat/completions"
    return [
        Way(DIRECT, upstream + "/chat/completions", long),
        Way(RAW, plain + "/raw" + end_point, long),
        Way(LINES, plain + "/lines" + end_point, long),
        Way(LITTLE_SEARCH, ours + end_point, little),
        Way(USUAL, ours + end_point, usual),
    ]


async def compare(ways: Sequence[Way], processes: Mapping[str, int], rounds: int) -> dict[str, dict[str, Seen]]:
    """Each round asks every way under both loads, in an order that turns; the first round warms up and counts not."""
    seen = {load: {way.name: Seen() for way in ways} for load in LOADS}
    lasts = (BEFORE_FIRST_MS + TOKENS * BETWEEN_MS) / 1000
    for turn in range(rounds + 1):
        for place in range(len(ways)):
            way = ways[(turn + place) % len(ways)]
            for load in LOADS:
                reader = await Reader.open(way, STREAMS, MARK)
                if load == LOADS[0]:  # the other load has streams of its own before those that count
                    await reader.at_once()
                before = _cpu(processes.get(way.name))
                streams = await (reader.at_once() if load == LOADS[0] else reader.steady(lasts))
                spent = _cpu(processes.get(way.name)) - before
                reader.close()
                if turn:
                    note(seen[load][way.name], streams, spent, STREAMS if load == LOADS[0] else 2 * STREAMS)
    return seen


def note(seen: Seen, streams: Sequence[Stream], cpu: float, asked: int) -> None:
    """Adds a round."""
    seen.cpu += cpu
    seen.streams += asked
    for stream in streams:
        seen.firsts.append(stream.first)
        seen.searches.append(searched(stream.extension()))


def searched(extension: Mapping[str, Any]) -> float:
    """Seconds in which at least one search lap ran, by the timings that an answer tells."""
    laps = sorted(
        (lap["started_ms"], lap["started_ms"] + lap["waited_ms"] + lap["worked_ms"])
        for lap in extension.get("timings", {}).get("laps", ())
        if lap["stage"] in SEARCH
    )
    total, until = 0.0, 0.0
    for began, ended in laps:
        total += max(ended - max(began, until), 0.0)
        until = max(until, ended)
    return total / 1000


def told(seen: Mapping[str, Mapping[str, Seen]], console: Console) -> dict[str, float]:
    """Prints a table a load; returns the figures."""
    figures: dict[str, float] = {}
    for load, ways in seen.items():
        rows = Table(title=f"{STREAMS} streams {load}: the first token, ms ({len(ways[DIRECT].firsts)} a way)")
        for heading in ("way", "median", "p99", "added", "added p99", "less search", "less search p99", "CPU/stream"):
            rows.add_column(heading, justify="right" if heading != "way" else "left")
        middle, worst = _median(ways[DIRECT].firsts), _p99(ways[DIRECT].firsts)
        for name, way in ways.items():
            bare = [first - search for first, search in zip(way.firsts, way.searches, strict=True)]
            added, added_p99 = _median(way.firsts) - middle, _p99(way.firsts) - worst
            less, less_p99 = _median(bare) - middle, _p99(bare) - worst
            figures |= {
                f"{load}: added, {name}": added,
                f"{load}: added p99, {name}": added_p99,
                f"{load}: less search, {name}": less,
                f"{load}: less search p99, {name}": less_p99,
                f"{load}: CPU a stream, {name}": 1000 * way.cpu / way.streams,
            }
            shown = (
                _median(way.firsts),
                _p99(way.firsts),
                added,
                added_p99,
                less,
                less_p99,
                1000 * way.cpu / way.streams,
            )
            rows.add_row(name, *(f"{value:.1f}" for value in shown))
        console.print(rows)
        for plain in (RAW, LINES):
            for mine in (LITTLE_SEARCH, USUAL):
                of = f"{mine} by {plain}"
                figures[f"{load}: ratio, {of}"] = (
                    figures[f"{load}: less search, {mine}"] / figures[f"{load}: added, {plain}"]
                )
                figures[f"{load}: ratio with search, {of}"] = (
                    figures[f"{load}: added, {mine}"] / figures[f"{load}: added, {plain}"]
                )
                figures[f"{load}: ratio p99, {of}"] = (
                    figures[f"{load}: less search p99, {mine}"] / figures[f"{load}: added p99, {plain}"]
                )
                console.print(
                    f"{load}, {of}: added less search {figures[f'{load}: ratio, {of}']:.2f}, "
                    f"with search {figures[f'{load}: ratio with search, {of}']:.2f}, "
                    f"p99 less search {figures[f'{load}: ratio p99, {of}']:.2f}"
                )
    return figures


def _median(seconds: Sequence[float]) -> float:
    return 1000 * statistics.median(seconds)


def _p99(seconds: Sequence[float]) -> float:
    return 1000 * float(np.percentile(seconds, 99))


def _cpu(pid: int | None) -> float:
    """Processor seconds that a process has used so far; 0 for none."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures once."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fleetfoot-proxying-") as folder:
        measure(Path(folder), rounds=rounds)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
