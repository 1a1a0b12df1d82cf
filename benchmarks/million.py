"""1,000,000 passages: how long building and opening take, what searching costs, and how much memory the service holds.

    python -m benchmarks.million [--questions 400] [--kept FOLDER] [--rebuild]

The set is made as ingest would make it (see `benchmarks.synthetic`), once, and kept; what that took is told from then
on. Opening is measured in processes of their own: first without a stamp, when every file is hashed, then with it. The
service is a real one, asked through HTTP by one caller with caches and single-flight off; of its own `timings` the time
in the encoder is taken off, which leaves searching, fusing, grouping, packing and waiting. Lexical search runs beside
the encoder, so that is less than the stages' sum; the sum is measured apart, in a bare loop on one thread.

Memory: resident is what the kernel counts for the process, pages of mapped files included that every process shares and
that go when memory is short; private is what the process alone holds and cannot give back.

Predicted before the first run: opening .1 s with a stamp and 5 s without, on a warm page cache; lexical 2 to 5 ms,
dense 2 to 3 ms, the whole without encoding 4 to 8 ms; private memory under 500 MB of 4 GB resident.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import beside, synthetic
from benchmarks.caller import OFF, Caller
from benchmarks.peer import ROOT, Peer, ours
from benchmarks.service import service
from benchmarks.synthetic import COLLECTION, KEPT, Built, Synthetic
from fleetfoot.demo import free_port
from fleetfoot.processes import interruptible
from retrieve.dense import DenseOptions

PASSAGES = 1_000_000
QUESTIONS, WARM_UP = 400, 50
RECALLED = 100
FORCED = DenseOptions(exact_up_to=0, scanned_up_to=0)  # what a million get, for sets too small to get it


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds."""

    median: float
    p99: float

    @classmethod
    def of(cls, took: Sequence[float]) -> Times:
        """Of one entry a question."""
        return cls(float(np.median(took)), float(np.percentile(took, 99)))


@dataclass(frozen=True, slots=True)
class Opened:
    """Seconds of opening with every file hashed, and with a stamp; and of warming up after either."""

    first: float
    first_warm_up: float
    verified: float
    verified_warm_up: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Of the serving process, in bytes, after the questions: resident, mapped from files, and private."""

    resident: int
    proportional: int
    mapped: int
    private: int


@dataclass(frozen=True, slots=True)
class Figures:
    """`whole` is what the caller saw, `retrieval` what the service counted without its encoder's lap; `stages` are from
    the bare loop, `searching` is its whole without encoding. `degraded` counts answers that gave something up."""

    built: Built
    opened: Opened
    ready: float
    whole: Times
    retrieval: Times
    searching: Times
    stages: dict[str, Times]
    memory: Memory
    dense_recall: float
    kept: tuple[beside.Kept, ...]
    degraded: int
    took: float


def measure(
    *, questions: int = QUESTIONS, kept: Path = KEPT, rebuild: bool = False, console: Console | None = None
) -> Figures:
    """Everything; building takes most of it, the first time."""
    console = console or Console(quiet=True)
    began = time.perf_counter()
    with console.status(f"making {PASSAGES} passages where they are not there yet"):
        data = synthetic.made(PASSAGES, kept=kept, rebuild=rebuild)
    asked = data.script.questions(WARM_UP + questions)
    opened = opening(data)
    starting = time.perf_counter()
    with service(data.data, free_port(8094, console), settings=OFF) as running:
        ready = time.perf_counter() - starting
        caller = Caller(running)
        whole: list[float] = []
        retrieval: list[float] = []
        for number, question in enumerate(asked):
            _, stages, took = caller.search(question)
            if number >= WARM_UP:
                whole.append(took)
                retrieval.append(caller.served - stages.get("encode", 0.0))
        memory = memory_of(running.api.pid)
    with Peer.open(ours(data.data, COLLECTION), data.data / "logs" / "bare.log") as bare:
        answers = [bare.search(question) for question in asked][WARM_UP:]
    figures = Figures(
        data.built,
        opened,
        ready,
        Times.of(whole),
        Times.of(retrieval),
        Times.of([each.whole - each.stages["encode"] for each in answers]),
        {stage: Times.of([each.stages[stage] for each in answers]) for stage in answers[0].stages},
        memory,
        beside.recall_of(data, asked[:RECALLED]),
        beside.kept_by(FORCED),
        caller.degraded,
        time.perf_counter() - began,
    )
    tables(figures, console)
    return figures


def opening(data: Synthetic) -> Opened:
    """In processes of their own; the stamps that were there are lost, and there again afterwards."""

    def opened() -> tuple[float, float]:
        command: list[str | Path] = [sys.executable, "-m", "benchmarks.opening", data.data, COLLECTION]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        said = json.loads(done.stdout)
        return said["open"], said["warm_up"]

    shutil.rmtree(data.data / "stamps", ignore_errors=True)
    first = opened()
    return Opened(*first, *opened())


def memory_of(process: int) -> Memory:
    """From the kernel's own sums (Linux, /proc/PID/smaps_rollup)."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return Memory(sizes["Rss"], sizes["Pss"], sizes["Rss"] - sizes["Anonymous"], sizes["Anonymous"])


def tables(figures: Figures, console: Console) -> None:
    """Everything that was measured."""
    times = Table(title=f"{figures.built.passages} passages, one caller, no reranking, caches off; ms")
    for heading in ("", "median", "p99"):
        times.add_column(heading, justify="right" if heading else "left")
    for name, took in (
        ("through HTTP, the whole", figures.whole),
        ("of which the service, without encoding", figures.retrieval),
        ("bare stages one after another, without encoding", figures.searching),
        *((f"  {name}", took) for name, took in figures.stages.items()),
    ):
        times.add_row(name, f"{took.median:.2f}", f"{took.p99:.2f}")
    console.print(times)
    built, opened, memory = figures.built, figures.opened, figures.memory
    console.print(
        f"built in {built.drawn + built.written:.0f} s ({built.written:.0f} s of it the generation, "
        f"{built.bytes / 1e9:.1f} GB); opened in {opened.first:.2f} s with every file hashed, "
        f"{opened.verified:.2f} s once verified (warmed up in {opened.verified_warm_up:.2f} s); "
        f"the service was ready after {figures.ready:.1f} s"
    )
    console.print(
        f"memory: resident {memory.resident / 1e6:.0f} MB (proportional {memory.proportional / 1e6:.0f}), "
        f"of which mapped from files {memory.mapped / 1e6:.0f} MB and private {memory.private / 1e6:.0f} MB"
    )
    console.print(
        f"dense recall@100 against exact, this set: {figures.dense_recall:.4f}; {figures.degraded} answers gave "
        f"something up; took {figures.took:.0f} s"
    )
    for kept in figures.kept:
        console.print(
            f"{kept.name} with this index forced: dense recall@100 {kept.recall:.4f}; hybrid nDCG@10 {kept.ndcg:.4f}, "
            f"all exact {kept.exact_ndcg:.4f}"
        )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--rebuild", action="store_true", help="write the generation anew, to measure that")
    asked = parser.parse_args()
    with interruptible():
        measure(questions=asked.questions, kept=asked.kept, rebuild=asked.rebuild, console=Console(width=140))


if __name__ == "__main__":
    main()
