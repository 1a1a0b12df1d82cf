"""Reranking within budgets of 25, 50 and 100 ms, beside a bare loop that scores the same pairs until time is up.

    python -m benchmarks.rerank_budget [--data FOLDER] [--queries 150] [--seconds 8] [--json FILE]

Two models: ce-tiny (two layers of 128, from ../shared) and six layers of 384 made on the spot (`six_layers.py`);
neither is measured for quality. Passages and queries are SciFact's, or the example handbook's, cut and tokenised as
ingest does. The bare loop has its own session with one thread and its pairs ready-made; it goes down the fused order in
runs of one, two, four or eight pairs, whichever is fastest for it on this machine. With one caller the two take turns
query by query. With eight, who ask again as soon as they are answered, they take turns second by second, and the bare
loop serves one query after the other, each until its budget is up. Nothing is known before: every score is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from random import Random
from statistics import mean, median

from rich.console import Console
from rich.table import Table

from assembly import usable_cores
from benchmarks import beir, six_layers
from ingest.chunking import SentenceChunker
from ingest.parsing import Parsing
from pipeline.clock import Budget, Clock, Stage
from pipeline.passages import (
    Block,
    Caller,
    Candidate,
    Candidates,
    Document,
    Hit,
    Leg,
    Neighbours,
    Passage,
    Query,
    Upload,
)
from pipeline.profile import Profile, Rerank
from rerank.cross_encoder import CrossEncoderReranker
from rerank.model import CrossEncoder, CrossEncoderOptions
from rerank.opening import RerankerOptions, open_reranker
from rerank.pairs import Pair
from rerank.scorer import Stopper
from rerank.shapes import Shape
from retrieve.model_library import ModelLibrary

ROOT = Path(__file__).resolve().parents[1]
CE_TINY = ROOT / ".." / "shared" / "models" / "ce-tiny"
SEED = 20261201
BUDGETS = (0.025, 0.050, 0.100)
DEPTH = 50
CALLERS = 8
SHAPES = (1, 2, 4, 8)


class Ready:
    """Implements Shelf over passages whose token ids were computed before, as ingest does."""

    generation = "benchmark@1"

    def __init__(self, passages: Sequence[Passage], model: CrossEncoder) -> None:
        self.tokenizer = model.tokenizer
        self._passages = passages
        self._ids = [memoryview(array("i", model.token_ids(passage.embedded_text()))) for passage in passages]

    def passages(self, keys: Sequence[int]) -> tuple[Passage, ...]:
        return tuple(self._passages[key] for key in keys)

    def content_hashes(self, keys: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._passages[key].content_hash for key in keys)

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._passages[key].tokens for key in keys)

    def token_ids(self, keys: Sequence[int]) -> tuple[memoryview, ...]:
        return tuple(self._ids[key] for key in keys)

    def near_duplicates(self, keys: Sequence[int], similarity: float) -> tuple[int, ...]:  # noqa: ARG002  the port's
        return tuple(range(len(keys)))

    def neighbours(self, keys: Sequence[int]) -> tuple[Neighbours, ...]:
        return tuple(Neighbours() for _ in keys)


@dataclass(frozen=True, slots=True)
class Case:
    """One question: for the reranker, and as pairs for the bare loop."""

    query: str
    candidates: Candidates
    pairs: list[Pair]


@dataclass
class OneCaller:
    """Of one budget with one caller. Times are milliseconds: of the rerank stage, and of what the caller waits."""

    budget_ms: float
    stage: list[float] = field(default_factory=list[float])
    awaited: list[float] = field(default_factory=list[float])
    pairs: list[int] = field(default_factory=list[int])
    bare_pairs: list[int] = field(default_factory=list[int])
    ended: int = 0

    @property
    def p99(self) -> float:
        return quantile(self.stage, 0.99)

    @property
    def awaited_p99(self) -> float:
        return quantile(self.awaited, 0.99)

    @property
    def ratio(self) -> float:
        """Pairs scored for each that the bare loop scored; 1 where neither had time for any."""
        return sum(self.pairs) / sum(self.bare_pairs) if any(self.bare_pairs) else 1.0

    @property
    def allowed(self) -> float:
        """What p99 may be: the budget and a tenth, or 10 ms more."""
        return self.budget_ms + max(self.budget_ms / 10, 10.0)


@dataclass
class Eight:
    """Of one budget with eight callers; seconds are those in which each side had the machine."""

    budget_ms: float
    stage: list[float] = field(default_factory=list[float])
    pairs: int = 0
    seconds: float = 0.0
    bare_pairs: int = 0
    bare_seconds: float = 0.0

    @property
    def p99(self) -> float:
        return quantile(self.stage, 0.99)

    @property
    def ratio(self) -> float:
        """Pairs a second for each pair a second of the bare loop."""
        return (self.pairs / self.seconds) / (self.bare_pairs / self.bare_seconds) if self.bare_pairs else 1.0

    @property
    def allowed(self) -> float:
        return self.budget_ms + max(self.budget_ms / 10, 10.0)


@dataclass
class Figures:
    """Of one model. `smallest_ms` is what its smallest pair takes; `nothing_begun` tells whether half of that, as a
    budget, led to no pair, `out_of_time`, and no run of the model."""

    model: str
    passages: str
    median_tokens: float
    bare_shape: int
    smallest_ms: float
    nothing_begun: bool
    one: list[OneCaller]
    eight: list[Eight]


def measure(models: Path, console: Console, *, queries: int = 150, seconds: float = 8.0) -> list[Figures]:
    """Both models; one that is not there is left out with a word. `models` is a data folder's, for the embedder."""
    with tempfile.TemporaryDirectory() as made:
        folders = {"six layers": six_layers.make(ModelLibrary(models).add("default").folder, Path(made))}
        if (CE_TINY / "model.onnx").is_file():
            folders = {"ce-tiny": CE_TINY, **folders}
        else:
            console.print("ce-tiny is left out: ../shared/models/ce-tiny is not here")
        return [asyncio.run(_measure(name, folder, queries, seconds)) for name, folder in folders.items()]


async def _measure(name: str, folder: Path, queries: int, seconds: float) -> Figures:
    options = CrossEncoderOptions(folder)
    bare = CrossEncoder.open(options)
    passages, questions, source = texts(folder / "tokenizer.json")
    cases = drawn(passages, questions, bare, queries)
    shape = fastest(bare, cases)
    with open_reranker(RerankerOptions(options), permits=threading.Semaphore(usable_cores())) as reranker:
        for case in cases[:5]:
            await rerank(reranker, case, 0.1)
        cost = reranker.line.scorer.cost
        smallest = cost.expected(Shape(1, min(len(pair.ids) for case in cases for pair in case.pairs)))
        nothing = await begins_nothing(reranker, cases[0], smallest / 2)
        gc.collect()
        gc.freeze()  # as the service does: the passages here are no garbage to look through
        one = [OneCaller(budget * 1000) for budget in BUDGETS]
        for number, case in enumerate(cases):
            for of in one:
                await _turn(reranker, bare, case, of, shape, ours_first=number % 2 == 0)
        eight = [await _eight(reranker, bare, cases, budget, shape, seconds) for budget in BUDGETS]
    lengths = [len(pair.ids) for case in cases for pair in case.pairs]
    return Figures(name, source, median(lengths), shape, smallest * 1000, nothing, one, eight)


def texts(tokenizer: Path) -> tuple[list[Passage], list[str], str]:
    """Passages as ingest would cut them, questions, and where they are from."""
    chunker = SentenceChunker.open(tokenizer)
    if beir.present("scifact"):
        data = beir.read("scifact")
        documents = [
            Document(name, name, title, (Block(text),), "text/plain", "en")
            for name, (title, text) in list(data.corpus.items())[:1000]
            if text.strip()
        ]
        return (
            [passage for document in documents for passage in chunker.chunk(document)],
            [*data.queries.values()],
            "SciFact",
        )
    from tests.examples.handbook import HANDBOOK, questions

    parser = Parsing()
    read = [parser.parse(Upload(str(file), file.read_bytes()), str(file)) for file in sorted(HANDBOOK.rglob("*.md"))]
    asked = [question.text for question in questions()]
    return [passage for document in read for passage in chunker.chunk(document)], asked, "handbook"


def drawn(passages: list[Passage], questions: list[str], model: CrossEncoder, cases: int) -> list[Case]:
    """Questions with candidates drawn by a seed: what a pair costs does not depend on whether it fits."""
    draw = Random(SEED)
    shelf = Ready(passages, model)
    made: list[Case] = []
    for number in range(cases):
        query = questions[number % len(questions)]
        keys = draw.sample(range(len(passages)), DEPTH)
        items = tuple(Candidate(key, 1 / place, (Hit(Leg.LEXICAL, place, 1.0),)) for place, key in enumerate(keys, 1))
        ids = model.token_ids(query)
        pairs = [model.template.join(ids, passage, model.max_tokens) for passage in shelf.token_ids(keys)]
        made.append(Case(query, Candidates(items, shelf), pairs))
    return made


def bare_loop(model: CrossEncoder, pairs: Sequence[Pair], rows: int, until: float) -> int:
    """Goes down the pairs, `rows` at a time, until time is up; what is done by then counts."""
    scored = 0
    for at in range(0, len(pairs), rows):
        batch = pairs[at : at + rows]
        if time.perf_counter() >= until:
            break
        model.score(batch, Stopper())
        scored += len(batch) if time.perf_counter() <= until else 0
    return scored


def fastest(model: CrossEncoder, cases: Sequence[Case]) -> int:
    """Pairs a run with which the bare loop gets through its pairs in the least time."""
    took: dict[int, list[float]] = {rows: [] for rows in SHAPES}
    for case in cases[:3]:
        for rows in SHAPES:
            began = time.perf_counter()
            bare_loop(model, case.pairs[:24], rows, float("inf"))
            took[rows].append(time.perf_counter() - began)
    return min(SHAPES, key=lambda rows: median(took[rows]))


async def rerank(reranker: CrossEncoderReranker, case: Case, budget: float) -> tuple[float, float, int, str]:
    """Milliseconds of the stage and of the caller's wait, pairs scored, and the reason for which there are not more."""
    clock = Clock(Budget(shares={Stage.RERANK: budget}))
    profile = Profile(rerank=Rerank(DEPTH))
    began = time.perf_counter()
    ranking = await reranker.rerank(Query(case.query, Caller(), ("b",), profile), case.candidates, clock)
    awaited = time.perf_counter() - began
    scored = sum(ranked.rerank_score is not None for ranked in ranking.items)
    timing = next(timing for timing in clock.timings if timing.stage is Stage.RERANK)
    reason = ranking.degraded[0].reason if ranking.degraded else ""
    return (timing.waited + timing.worked) * 1000, awaited * 1000, scored, reason


async def begins_nothing(reranker: CrossEncoderReranker, case: Case, budget: float) -> bool:
    before = reranker.line.counts.runs
    _, _, scored, reason = await rerank(reranker, case, budget)
    return scored == 0 and reason == "out_of_time" and reranker.line.counts.runs == before


async def _turn(
    reranker: CrossEncoderReranker, bare: CrossEncoder, case: Case, of: OneCaller, shape: int, *, ours_first: bool
) -> None:
    ended = reranker.line.counts.terminated
    for ours in (ours_first, not ours_first):
        if ours:
            stage, awaited, scored, _ = await rerank(reranker, case, of.budget_ms / 1000)
            of.stage.append(stage)
            of.awaited.append(awaited)
            of.pairs.append(scored)
        else:
            of.bare_pairs.append(bare_loop(bare, case.pairs, shape, time.perf_counter() + of.budget_ms / 1000))
        await asyncio.sleep(0.01)  # a run that was terminated has returned by then
    of.ended += reranker.line.counts.terminated - ended


async def _eight(
    reranker: CrossEncoderReranker, bare: CrossEncoder, cases: list[Case], budget: float, shape: int, seconds: float
) -> Eight:
    of = Eight(budget * 1000)
    turns = max(round(seconds), 2)
    for turn in range(turns):
        if turn % 2 == 0:
            began = time.perf_counter()
            until = began + 1.0
            found = await asyncio.gather(
                *(_asking(reranker, cases[caller:] + cases[:caller], budget, until) for caller in range(CALLERS))
            )
            of.seconds += time.perf_counter() - began
            of.pairs += sum(scored for answers in found for _, scored in answers)
            of.stage += [stage for answers in found for stage, _ in answers]
        else:
            began = time.perf_counter()
            number = turn
            while time.perf_counter() < began + 1.0:
                of.bare_pairs += bare_loop(bare, cases[number % len(cases)].pairs, shape, time.perf_counter() + budget)
                number += 1
            of.bare_seconds += time.perf_counter() - began
        await asyncio.sleep(0.02)
    return of


async def _asking(
    reranker: CrossEncoderReranker, cases: Sequence[Case], budget: float, until: float
) -> list[tuple[float, int]]:
    answers: list[tuple[float, int]] = []
    while time.perf_counter() < until:
        stage, _, scored, _ = await rerank(reranker, cases[len(answers) % len(cases)], budget)
        answers.append((stage, scored))
    return answers


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that so large a part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(ceil(part * len(ordered)) - 1, 0)]


def show(figures: Sequence[Figures], console: Console) -> None:
    """Prints a table for each model."""
    for of in figures:
        table = Table(
            title=f"{of.model}: pairs of {of.median_tokens:.0f} tokens (median, {of.passages}), smallest "
            f"{of.smallest_ms:.1f} ms, bare loop in {of.bare_shape}s; half the smallest begins nothing: "
            f"{'yes' if of.nothing_begun else 'NO'}",
            title_justify="left",
        )
        for column in ("callers", "budget ms", "stage p50", "p99", "allowed", "waits p99", "pairs", "bare", "ratio"):
            table.add_column(column, justify="right")
        table.add_column("ended")
        for one in of.one:
            table.add_row(
                "1",
                *(f"{value:.1f}" for value in (one.budget_ms, median(one.stage), one.p99, one.allowed)),
                f"{one.awaited_p99:.1f}",
                *(f"{value:.2f}" for value in (mean(one.pairs), mean(one.bare_pairs), one.ratio)),
                str(one.ended),
            )
        for eight in of.eight:
            table.add_row(
                "8",
                *(f"{value:.1f}" for value in (eight.budget_ms, median(eight.stage), eight.p99, eight.allowed)),
                "",
                f"{eight.pairs / eight.seconds:.1f}/s",
                f"{eight.bare_pairs / eight.bare_seconds:.1f}/s",
                f"{eight.ratio:.2f}",
                "",
            )
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / ".data", help="a data folder, for the embedder's model")
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=8.0, help="with eight callers, for each budget")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console(width=130)
    figures = measure(given.data / "models", console, queries=given.queries, seconds=given.seconds)
    show(figures, console)
    if given.json:
        given.json.write_text(json.dumps([asdict(of) for of in figures], indent=1))


if __name__ == "__main__":
    main()
