"""Twice the load that it can sustain: what a service answers in time, beside one that lets everybody in.

    python -m benchmarks.overload [--data FOLDER] [--json FILE] [--seconds 60] [--runs 5]

A real service over the example handbook, in its own process, with an encoder that sleeps 1 ms for each padded token,
so that it cannot sustain more than 50 questions a second. Caches and single-flight are off. The load is an open loop
with Poisson arrivals from a process of its own; latency is timed from the scheduled send, and a run whose generator was
late (p99 over 5 ms) is void, is told, and is repeated a few times at most.

First the sustainable load: the highest rate at which the p99 is within the deadline of 250 ms and fewer than 1 % of the
requests are refused or degraded for want of time. Then twice that, five times a minute. After each minute the plain
alternative gets the same for a shorter time: the same service with lines that have no bound and no foresight.

Goodput counts answers that were complete (nothing given up for want of time or room) and in time. Answers that were in
time with something given up, such as the dense leg, are told beside it.

Predicted before it was measured: goodput near what the encoder can do in a second (1 / .018 s), since a text that would
be late is refused at the lane and costs it nothing; everybody else gets the lexical leg, in time; no refusal, as the
lexical leg costs next to nothing. The plain service in time as well, since each stage is cut at its allowance, but
with a goodput far below ours: its encoder mostly computes what is given up before it is done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.load.apart import run_apart
from benchmarks.load.climbing import Climb, ClimbingOptions, Step, climb
from benchmarks.load.figures import LATENESS, STANDING, Spread
from benchmarks.load.plan import Ask, Pace, Plan, Target
from benchmarks.load.queries import SAMPLE, read
from benchmarks.load.recording import Recording, Sample
from benchmarks.service import CACHES_OFF, service
from fleetfoot.client import connect
from fleetfoot.demo import free_port, until_ready
from fleetfoot.ingesting import ingest
from fleetfoot.processes import end
from tests.examples.handbook import HANDBOOK
from workers.broker import EmbeddedRedis

SILENT = Console(quiet=True)
COLLECTION = "handbook"
TOKEN_MS = 1.0
DEADLINE_MS = 250.0
AT_MOST = 50.0  # a second: what the slowed encoder may sustain
LATE_BY = 1.05  # of the deadline: where the p99 may be
REFUSALS = frozenset({429, 503})
FACTOR = 2.0
VOID_AT_MOST = 4  # repetitions of void runs, over all


@dataclass(frozen=True, slots=True)
class OverloadOptions:
    """`seconds` of each of `runs`, and of the plain alternative after each; `climbing` seconds at each rate tried."""

    seconds: float = 60.0
    runs: int = 5
    plain_seconds: float = 15.0
    climbing: float = 20.0
    warm_up: float = 2.0
    first: float = 24.0  # requests a second that the search begins with


@dataclass(frozen=True, slots=True)
class Run:
    """One run: durations in seconds, rates a second. `latency` is of answers, complete or not; `statuses` counts what
    was no answer, by status and code. `lateness` is the generator's p99."""

    rate: float
    seconds: float
    sent: int
    latency: Spread
    refused: Spread
    lateness: float
    complete_in_time: int
    degraded_in_time: int
    statuses: dict[str, int]
    degraded: dict[str, int]

    @property
    def goodput(self) -> float:
        """Answers a second that were complete and in time."""
        return self.complete_in_time / self.seconds

    @property
    def in_time(self) -> float:
        """Answers a second that were in time, complete or not."""
        return (self.complete_in_time + self.degraded_in_time) / self.seconds

    @property
    def void(self) -> bool:
        """Whether the generator was too late for the figures to be the service's."""
        return self.lateness > LATENESS

    @classmethod
    def of(cls, recording: Recording) -> Run:
        """From the samples."""
        plan, samples = recording.plan, recording.samples
        assert plan.pace.rate is not None
        answered = [each for each in samples if each.answered]
        in_time = [each for each in answered if each.latency * 1000 <= DEADLINE_MS]
        complete = sum(not given_up(each) for each in in_time)
        others = [each for each in samples if not each.answered]
        return cls(
            plan.pace.rate,
            plan.seconds,
            len(samples),
            Spread.of(each.latency for each in answered),
            Spread.of(each.latency for each in others),
            Spread.of(each.late for each in samples).p99,
            complete,
            len(in_time) - complete,
            dict(sorted(Counter(f"{each.status} {each.problem}" for each in others).items())),
            dict(sorted(Counter(reason for each in answered for reason in given_up(each)).items())),
        )


@dataclass(frozen=True, slots=True)
class OverloadFigures:
    """`sustained` is the sustainable load a second, `steps` how it was found. `void` runs are in none of the figures.

    `ours` and `plain` were measured by turns, at the same rate, with the same arrivals.
    """

    sustained: float
    steps: tuple[tuple[float, bool], ...]
    ours: tuple[Run, ...]
    plain: tuple[Run, ...]
    void: tuple[Run, ...]

    @property
    def p99(self) -> float:
        """Of the worst run, in seconds."""
        return max(run.latency.p99 for run in self.ours)

    @property
    def goodput(self) -> float:
        """Of the worst run, a second."""
        return min(run.goodput for run in self.ours)

    def shortcomings(self, runs: int) -> list[str]:
        """What is not as it must be, as sentences; none when all is."""
        bound = DEADLINE_MS / 1000 * LATE_BY
        other = sorted(
            {status for run in self.ours for status in run.statuses if int(status.split()[0]) not in REFUSALS}
        )
        found = [
            (len(self.ours) < runs, f"{len(self.ours)} of {runs} runs are not void"),
            (not 0 < self.sustained <= AT_MOST, f"the sustainable load is {self.sustained:.1f}/s, not within 0 and 50"),
            (
                bool(self.ours) and self.p99 > bound,
                f"p99 is {self.p99 * 1000:.0f} ms, over {bound * 1000:.1f}" if self.ours else "",
            ),
            (bool(other), f"there were other ends than answers, 429 and 503: {', '.join(other)}"),
            (
                bool(self.ours) and self.goodput < self.sustained,
                f"goodput is {self.goodput:.1f}/s, below the sustainable {self.sustained:.1f}" if self.ours else "",
            ),
        ]
        return [sentence for short, sentence in found if short]


def given_up(sample: Sample) -> list[str]:
    """What an answer gave up for want of time or room, as `stage:reason`."""
    return [each for each in sample.degraded if each.partition(":")[2] not in STANDING]


def plan_of(options: OverloadOptions, rate: float, seconds: float, seed: int) -> Plan:
    """Every question in turn, none of it reranked: there is no reranker, and its absence is no want of time."""
    ask = Ask(collection=COLLECTION, deadline_ms=DEADLINE_MS, fields={"rerank": {"depth": 0}})
    return Plan(
        read(SAMPLE), ask, Pace(rate), seconds, options.warm_up, exponent=None, seed=seed, connections=64, patience=10.0
    )


async def measure(options: OverloadOptions | None = None, data: Path | None = None) -> OverloadFigures:
    """Finds the sustainable load, then measures. `data` is a folder that may hold the handbook already."""
    options = options or OverloadOptions()
    if data is None:
        with tempfile.TemporaryDirectory() as folder:
            return await measure(options, Path(folder))
    await _ingested(data)
    with (
        EmbeddedRedis.open() as redis,
        slowed(data, redis.url) as ours,
        slowed(data, redis.url, "--plain") as plain,
    ):
        found = await _sustainable(ours, options)
        said(f"sustainable: {found.sustained:.1f}/s (of p99 within {DEADLINE_MS:.0f} ms and under 1 % spoiled)")
        return await _overloaded(found, ours, plain, options)


async def _sustainable(url: str, options: OverloadOptions) -> Climb:
    async def run(plan: Plan) -> Recording:
        return await run_apart(plan, Target(url))

    def watch(step: Step) -> None:
        p99, void = step.figures.latency.p99 * 1000, ", void" if step.figures.void else ""
        held = "held" if step.held else "did not hold"
        said(f"  {step.rate:6.1f}/s {held}: p99 {p99:.0f} ms, {step.figures.spoiled:.1%} spoiled{void}")

    plan = plan_of(options, options.first, options.climbing, seed=1)
    return await climb(plan, run, ClimbingOptions(closeness=1.15, steps=7), watch)


async def _overloaded(found: Climb, ours: str, plain: str, options: OverloadOptions) -> OverloadFigures:
    kept: dict[str, list[Run]] = {ours: [], plain: []}
    void: list[Run] = []
    rate = max(found.sustained, 1.0) * FACTOR
    for number in range(options.runs):
        for url, seconds in ((ours, options.seconds), (plain, options.plain_seconds)):
            while True:
                plan = plan_of(options, rate, seconds, seed=100 + number)
                run = Run.of(await run_apart(plan, Target(url)))
                said(_line("ours " if url == ours else "plain", run))
                if not run.void:
                    kept[url].append(run)
                    break
                void.append(run)
                if len(void) > VOID_AT_MOST:
                    break
    steps = tuple((step.rate, step.held) for step in found.steps)
    return OverloadFigures(found.sustained, steps, tuple(kept[ours]), tuple(kept[plain]), tuple(void))


@contextmanager
def slowed(data: Path, redis_url: str, *arguments: str) -> Generator[str]:
    """A slowed service of its own over the folder, ready; gives its address."""
    port = free_port(0, SILENT)
    url, log = f"http://127.0.0.1:{port}", data / "logs" / f"slowed-{port}.log"
    environment = {
        **os.environ,
        **CACHES_OFF,
        "FLEETFOOT_DATA_DIR": str(data),
        "FLEETFOOT_HOST": "127.0.0.1",
        "FLEETFOOT_PORT": str(port),
        "FLEETFOOT_REDIS_URL": redis_url,
        "FLEETFOOT_LOG_LEVEL": "WARNING",
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.slowed", "--token-ms", str(TOKEN_MS), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(url, process, log)
        yield url
    finally:
        end(process)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """In a thread of its own, as there may be a loop in this one."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as alone:
        alone.submit(asyncio.run, until_ready(url, process, log)).result()


async def _ingested(data: Path) -> None:
    """Starts a service of the usual speed, sends the handbook, and ends it."""

    def send() -> None:
        with service(data, free_port(0, SILENT)) as running:
            asyncio.run(_send(running.url))

    await asyncio.to_thread(send)


async def _send(url: str) -> None:
    async with connect(url) as client:
        await ingest(client, COLLECTION, [HANDBOOK], SILENT, wait=True)


def said(line: str) -> None:
    """A benchmark's own output."""
    print(line, flush=True)


def _line(who: str, run: Run) -> str:
    refusals = ", ".join(f"{count} x {status}" for status, count in run.statuses.items()) or "none"
    gave_up = ", ".join(f"{count} x {reason}" for reason, count in run.degraded.items()) or "nothing"
    late = f"generator late by {run.lateness * 1000:.1f} ms{' (void)' if run.void else ''}"
    return (
        f"  {who} {run.rate:5.1f}/s for {run.seconds:.0f} s: p50 {run.latency.p50 * 1000:4.0f} ms, "
        f"p99 {run.latency.p99 * 1000:4.0f} ms; complete in time {run.goodput:5.1f}/s, in time at all "
        f"{run.in_time:5.1f}/s; refused: {refusals}; given up: {gave_up}; {late}"
    )


def report(figures: OverloadFigures) -> str:
    """The figures in a few lines."""

    def middle(runs: Sequence[Run], what: str) -> float:
        values: list[float] = [getattr(run, what) for run in runs]
        return median(values) if values else 0.0

    ours, plain = middle(figures.ours, "goodput"), middle(figures.plain, "goodput")
    ratio = f"{ours / plain:.1f} times" if plain else "against none of"
    return (
        f"sustainable {figures.sustained:.1f}/s; at twice that: p99 of the worst of {len(figures.ours)} runs "
        f"{figures.p99 * 1000:.0f} ms of {DEADLINE_MS:.0f}, complete answers in time {ours:.1f}/s (worst "
        f"{figures.goodput:.1f}), in time at all {middle(figures.ours, 'in_time'):.1f}/s; {ratio} the plain "
        f"alternative's {plain:.1f}/s; {len(figures.void)} void runs"
    )


def to_json(figures: OverloadFigures) -> dict[str, Any]:
    """As JSON."""
    return asdict(figures)


def main() -> None:
    """Measures, prints, and exits 1 where a figure falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=OverloadOptions().seconds)
    parser.add_argument("--runs", type=int, default=OverloadOptions().runs)
    asked = parser.parse_args()
    options = replace(OverloadOptions(), seconds=asked.seconds, runs=asked.runs)
    figures = asyncio.run(measure(options, asked.data))
    said(report(figures))
    if asked.json:
        asked.json.write_text(json.dumps(to_json(figures), indent=1) + "\n", encoding="utf-8")
    short = figures.shortcomings(options.runs)
    for sentence in short:
        said(f"falls short: {sentence}")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
