"""Hybrid search of 100,000 passages without reranking: ours through HTTP beside four others, interleaved in one run.

    python -m benchmarks.hundred_thousand [--rounds 400] [--kept FOLDER]

Ours is a real service (API, worker and Valkey in their own processes), asked over a real port by one caller, who wants
ten passages within the default deadline of a second, with caches and single-flight off. The others are called in
processes of their own over a pipe that is not counted, with no HTTP, and as many threads as they like:

- LangChain's EnsembleRetriever over BM25Retriever (rank_bm25) and FAISS, twice: as it comes, and with stop words and
  stems, which is faster (every eighth round each);
- a plain script of sentence-transformers, bm25s on numba and a flat FAISS index, which is exact;
- the same script with an HNSW index, which is a stronger peer than the bound asks for;
- the bare stages of ours in a loop.

All get the same passages, vectors and questions; a question is asked of each once, and they take turns in an order
that moves. Then eight callers: ours under wrk, the others by threads of their own, at their best with one caller or
eight, all by turns again. A last table shows ours with caches on, asked by popularity.

Beside it stands quality: how many of the exact script's best ten each finds, dense recall@100 against exact here, and
on SciFact and Cranfield nDCG@10 of each and recall@100 of the kind of dense index that serves 100,000.

Predicted before the first run, from the stages' own figures on two idle cores: ours 8 to 10 ms; LangChain 350 to 500
(40 to 60 times); the plain script 32 to 40 (about 4 times), with HNSW 23 to 28 (about 3 times); bare stages 7 to 8
(ours 1.2 times). Eight callers: 150 to 250 queries a second against 2 to 3.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import numpy as np
from rich.console import Console

from benchmarks import beside, synthetic, wrk
from benchmarks.caller import OFF, Caller, body_of
from benchmarks.compared import STAGES, Cached, Side, show_many_callers, show_one_caller, show_quality
from benchmarks.peer import Peer, environment, ours
from benchmarks.service import Service, service
from benchmarks.synthetic import COLLECTION, KEPT
from fleetfoot.demo import free_port
from fleetfoot.processes import interruptible
from retrieve.dense import DenseOptions

ROOT = Path(__file__).resolve().parents[1]
PASSAGES = 100_000
WARM_UP = 30
ROUNDS = 400
SELDOM = 8  # LangChain is asked in every so manieth round
REST = 0.003  # between turns, so that no thread of the one before still spins
CALLERS = 8
LOAD_ROUNDS, LOAD_SECONDS = 3, 6
AT_ONCE = {"langchain": 10, "plain": 60, "plain, hnsw": 60, "bare": 120}
POPULAR, ASKED = 500, 1500
BUSY = 1.0  # runnable threads besides ours
FORCED = DenseOptions(exact_up_to=0, scanned_up_to=PASSAGES)  # what 100,000 get, for sets too small to get it
PEERS = ("langchain", "plain")  # judged on real sets beside ours


@dataclass(frozen=True, slots=True)
class Figures:
    """What a proof judges. `rates` are queries a second with eight callers, the best of one and eight threads; `load`
    is None, and `no_load` says why, where there is no wrk. `degraded` counts ours that gave anything up."""

    sides: dict[str, Side]
    rates: dict[str, float]
    load: wrk.Load | None
    no_load: str
    degraded: int
    cached: Cached
    dense_recall: float
    kept: tuple[beside.Kept, ...]
    ndcg: dict[str, dict[str, float]]
    took: float

    def times_faster(self, other: str) -> float:
        """The other's median by ours."""
        return self.sides[other].median / self.sides["ours"].median

    def times_the_rate(self, other: str) -> float:
        """Our answers a second by the other's; 0 where ours could not be measured."""
        return self.load.rate / self.rates[other] if self.load else 0.0


@dataclass
class Taken:
    """What one side's answers said while measuring."""

    whole: list[float] = field(default_factory=list[float])
    stages: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    rows: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def side(self, exact: dict[int, list[int]]) -> Side:
        """Its figures, beside the exact rows by question."""
        shared = [len(set(rows[:10]) & set(exact[number][:10])) / 10 for number, rows in self.rows.items()]
        stages = {name: float(np.median([row.get(name, 0.0) for row in self.stages])) for name in STAGES}
        return Side(
            float(np.median(self.whole)),
            float(np.percentile(self.whole, 99)),
            stages if any(stages.values()) else {},
            mean(shared),
            len(self.whole),
        )


def measure(*, rounds: int = ROUNDS, kept: Path = KEPT, console: Console | None = None) -> Figures:
    """Everything, in some seven minutes on two idle cores when the set and the peers' environment are there."""
    console = console or Console(quiet=True)
    began = time.perf_counter()
    told_of_company(console)
    python, model = environment()
    data = synthetic.made(PASSAGES, kept=kept)
    folder = data.write_for_peers()
    questions = data.script.questions(rounds + WARM_UP + 4000)
    peers = ROOT / "benchmarks" / "peers"
    commands: dict[str, list[str | Path]] = {
        "langchain": [python, peers / "langchain_ensemble.py", folder, model],
        "langchain, stems": [python, peers / "langchain_ensemble.py", folder, model, "--words", "stemmed"],
        "plain": [python, peers / "plain_script.py", folder, model],
        "plain, hnsw": [python, peers / "plain_script.py", folder, model, "--index", "hnsw"],
        "bare": ours(data.data, COLLECTION),
    }
    with ExitStack() as opened:
        others: dict[str, Peer] = {}
        for name, command in commands.items():
            with console.status(f"{name} builds its indexes"):
                log = data.data / "logs" / f"{name.replace(', ', '-')}.log"
                others[name] = opened.enter_context(Peer.open(command, log))
        with service(data.data, free_port(8093, console), settings=OFF) as running:
            caller = Caller(running)
            taken = by_turns(caller, others, questions[: WARM_UP + rounds], console)
            sides = {name: side.side(taken["plain"].rows) for name, side in taken.items()}
            show_one_caller(PASSAGES, sides, caller.degraded, console)
            rates, load, no_load = at_once(running, others, questions[WARM_UP + rounds :], console)
    with service(data.data, free_port(8093, console)) as running:
        cached = with_caches(running, questions[-POPULAR:], loaded=load is not None)
    show_many_callers(CALLERS, rates, load, no_load, cached, console)
    with console.status("quality"):
        dense = beside.recall_of(data, questions[:200])
        judged = beside.kept_by(FORCED)
        ndcg = beside.peers_ndcg(
            {name: ["FOLDER" if part == folder else part for part in commands[name]] for name in PEERS},
            data.data / "logs",
        )
    show_quality(dense, judged, ndcg, console)
    took = time.perf_counter() - began
    console.print(f"took {took:.0f} s")
    return Figures(sides, rates, load, no_load, caller.degraded, cached, dense, judged, ndcg, took)


def told_of_company(console: Console) -> None:
    """Says so when others are at work on this machine: torch's threads wait for each other, so peers suffer most."""
    busy = os.getloadavg()[0]
    if busy > BUSY:
        console.print(
            f"[bold]The load average is {busy:.1f}: ratios to peers are too good. Measure on an idle machine."
        )


def by_turns(caller: Caller, others: dict[str, Peer], questions: Sequence[str], console: Console) -> dict[str, Taken]:
    """One caller: every question is asked of everybody whose turn it is, beginning with somebody else each time."""

    def ask(name: str, question: str) -> tuple[list[int], dict[str, float], float]:
        if name == "ours":
            return caller.search(question)
        found = others[name].search(question)
        return found.rows, found.stages, found.whole

    taken = {name: Taken() for name in ("ours", *others)}
    names = list(taken)
    seldom = [name for name in names if name.startswith("langchain")]
    for question in questions[:WARM_UP]:
        for name in names:
            if name not in seldom or question in questions[:3]:
                ask(name, question)
    caller.degraded = 0
    with console.status(f"{len(questions) - WARM_UP} questions by turns"):
        for number, question in enumerate(questions[WARM_UP:]):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                if name in seldom and number % SELDOM != 2 * seldom.index(name):
                    continue
                time.sleep(REST)
                rows, stages, whole = ask(name, question)
                side = taken[name]
                side.whole.append(whole)
                side.stages.append(stages)
                side.rows[number] = rows
    return taken


def at_once(
    running: Service, others: dict[str, Peer], questions: Sequence[str], console: Console
) -> tuple[dict[str, float], wrk.Load | None, str]:
    """Eight callers, by turns too: queries a second of each peer at its best, and ours under wrk."""
    bodies = [body_of(question) for question in questions]
    loads: list[wrk.Load] = []
    rates: dict[str, list[float]] = {}
    no_load = ""
    with console.status(f"{CALLERS} callers at once"):
        for part in range(LOAD_ROUNDS):
            try:
                some = bodies[part * len(bodies) // LOAD_ROUNDS : (part + 1) * len(bodies) // LOAD_ROUNDS]
                loads.append(wrk.load(f"{running.url}/v1/retrieve", some, callers=CALLERS, seconds=LOAD_SECONDS))
            except wrk.NoWrk as missing:
                no_load = str(missing)
            for name, count in AT_ONCE.items():
                for callers in (1, CALLERS):
                    share = questions[part * count : (part + 1) * count]
                    rates.setdefault(f"{name}/{callers}", []).append(others[name].at_once(share, callers).rate)
    best = {name: max(mean(rates[f"{name}/{callers}"]) for callers in (1, CALLERS)) for name in AT_ONCE}
    return best, wrk.together(loads) if loads else None, no_load


def with_caches(running: Service, questions: Sequence[str], *, loaded: bool) -> Cached:
    """Ours as it comes, asked by popularity: a question of rank r is asked 1 / r as often as the first."""
    draw = np.random.default_rng(POPULAR)
    popularity = 1 / np.arange(1, len(questions) + 1)
    asked = [questions[each] for each in draw.choice(len(questions), ASKED, p=popularity / popularity.sum())]
    caller = Caller(running)
    took = [caller.search(question)[2] for question in asked]
    bodies = [body_of(question) for question in asked]
    load = wrk.load(f"{running.url}/v1/retrieve", bodies, callers=CALLERS, seconds=LOAD_SECONDS) if loaded else None
    rates = {name: hits / max(total, 1) for name, (hits, total) in caller.caches.items()}
    return Cached(float(np.median(took)), float(np.percentile(took, 99)), ASKED, rates, load)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--kept", type=Path, default=KEPT)
    asked = parser.parse_args()
    with interruptible():
        measure(rounds=asked.rounds, kept=asked.kept, console=Console(width=160))


if __name__ == "__main__":
    main()
