"""nDCG@10 and Recall@100 of the service's own retriever, in process, on judged sets.

    python -m benchmarks.quality [--sets scifact cranfield] [--runs FOLDER] [--own-weights]

One passage per document (title and text, cut at 256 tokens), k1 1.5, b .75, English stemming and stop words, 100 per
leg, reciprocal rank fusion with k = 60, the default int8 model, no near-duplicate removal; judged by pytrec_eval.
Queries go through their own graph, as the service's do, unless --own-weights sends them through the model's.
Vectors are kept under .data/quality, so that a second run takes seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytrec_eval

from benchmarks.beir import BeirSet, present, read
from pipeline.clock import Budget, Clock
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Caller, Candidates, Leg, Passage, Query
from pipeline.ports import GenerationRef
from pipeline.profile import Fusion, Profile, Search
from retrieve.encoder import EncoderOptions, OnnxEncoder, OnnxPassageEncoder, as_rows, as_vectors
from retrieve.generation import Generation
from retrieve.generation_writing import FolderWriter
from retrieve.hybrid import HybridRetriever
from retrieve.model_library import ModelLibrary
from retrieve.query_encoder import QueryEncoder
from retrieve.segment_writing import GenerationOptions
from retrieve.serving import Generations

ROOT = Path(__file__).parents[1]
SEARCHES = {
    "lexical": Search(legs=(Leg.LEXICAL,)),
    "dense": Search(legs=(Leg.DENSE,)),
    "hybrid, rrf": Search(),
    "hybrid, min-max": Search(fusion=Fusion.MIN_MAX),
}
# Measured with other people's tools (float32 model): nDCG@10 and Recall@100, from the data's own README.
REFERENCE = {
    "scifact": {
        "lexical": (0.6863, 0.9127),
        "dense": (0.6451, 0.9250),
        "hybrid, rrf": (0.7181, 0.9583),
        "hybrid, min-max": (0.7293, 0.9450),
    },
    "cranfield": {
        "lexical": (0.3652, 0.7349),
        "dense": (0.3810, 0.7749),
        "hybrid, rrf": (0.4079, 0.7940),
        "hybrid, min-max": (0.4096, 0.7958),
    },
}


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """A judged set as passages: each document is one, its title and then its text, even where that repeats it."""

    name: str
    passages: tuple[Passage, ...]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]

    @classmethod
    def of(cls, judged: BeirSet) -> JudgedSet:
        """Sizes are left at 0, since nothing is packed here."""
        passages = tuple(
            Passage(document, document, 0, f"{title} {text}".strip(), 0, document, document, language="en")
            for document, (title, text) in judged.corpus.items()
        )
        return cls(judged.name, passages, judged.queries, judged.qrels)


@dataclass(frozen=True, slots=True)
class Current:
    """Implements CurrentGeneration and EarlierGenerations for the one generation of a benchmark."""

    ref: GenerationRef

    def current(self, tenant: str, collection: str) -> GenerationRef:  # noqa: ARG002
        return self.ref

    def earlier(self, tenant: str, collection: str, before: int) -> tuple[GenerationRef, ...]:  # noqa: ARG002
        return ()


def vectors(encoder: OnnxPassageEncoder, judged: JudgedSet, kept: Path) -> np.ndarray:
    """Encodes once per set and model."""
    file = kept / f"{judged.name}-{encoder.fingerprint}.npy"
    if not file.exists():
        kept.mkdir(parents=True, exist_ok=True)
        rows: list[np.ndarray] = []
        for first in range(0, len(judged.passages), 64):
            some = judged.passages[first : first + 64]
            rows.append(as_rows(encoder.encode([passage.embedded_text() for passage in some])))
            print(f"\r{judged.name}: {first + len(some)} of {len(judged.passages)} encoded", end="", file=sys.stderr)
        print(file=sys.stderr)
        np.save(file, np.concatenate(rows))
    return np.load(file)


@contextmanager
def retriever(
    judged: JudgedSet,
    encoder: OnnxEncoder,
    rows: np.ndarray,
    folder: Path,
    options: GenerationOptions | None = None,
) -> Iterator[HybridRetriever]:
    """The service's own retriever over a generation written for it."""
    writer = FolderWriter.open(encoder.model, options)
    written = writer.write_generation(
        folder,
        judged.name,
        1,
        embedder=encoder.fingerprint,
        chunker="one passage a document",
        previous=None,
        keep=(),
        gone=(),
        added=writer.write_segment(folder, judged.passages, as_vectors(rows)),
    )
    ref = GenerationRef(judged.name, 1, folder / "g1", written.digest)
    permits = threading.Semaphore(2)
    with (
        QueryEncoder(encoder, permits=permits) as queries,
        Lane(LaneOptions("lexical"), permits=permits) as lexical,
        Lane(LaneOptions("dense"), permits=permits) as dense,
        Lane(LaneOptions("opening"), permits=permits) as opening,
    ):
        current = Current(ref)
        generations = Generations(
            current,
            lambda ref: Generation.open(ref, embedder=encoder.fingerprint),
            earlier=current,
            opening=opening,
            searching=dense,
        )
        yield HybridRetriever(generations, queries, lexical=lexical, dense=dense)


async def run(searching: HybridRetriever, judged: JudgedSet, search: Search) -> dict[str, dict[str, float]]:
    """A run as pytrec_eval takes it; it ranks by score alone, so ties are broken by place before it can."""
    found: dict[str, dict[str, float]] = {}
    profile = replace(Profile(), search=search)
    for query, text in judged.queries.items():
        candidates = await searching.retrieve(Query(text, Caller(), (judged.name,), profile), Clock(Budget()))
        found[query] = strictly_decreasing(judged, candidates)
    return found


def strictly_decreasing(judged: JudgedSet, candidates: Candidates) -> dict[str, float]:
    """The documents found with scores that keep the order and never tie."""
    scores: dict[str, float] = {}
    last = np.inf
    for item in candidates.items:
        last = min(item.score, float(np.nextafter(last, -np.inf)))
        scores[judged.passages[item.key].document_id] = last
    return scores


def judge(judged: JudgedSet, found: dict[str, dict[str, float]]) -> tuple[float, float]:
    """nDCG@10 and Recall@100, means over every judged query; one without results counts 0."""
    evaluator = pytrec_eval.RelevanceEvaluator(judged.judgements, {"ndcg_cut.10", "recall.100"})
    judged_queries = evaluator.evaluate(found)
    count = len(judged.judgements)
    return (
        sum(scores["ndcg_cut_10"] for scores in judged_queries.values()) / count,
        sum(scores["recall_100"] for scores in judged_queries.values()) / count,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; exits 1 when the fused row is more than .01 below its reference, 2 without the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(REFERENCE))
    parser.add_argument("--models", type=Path, default=ROOT / ".data" / "models")
    parser.add_argument("--runs", type=Path, help="a folder for TREC run files")
    parser.add_argument("--own-weights", action="store_true", help="encode queries as documents are")
    asked = parser.parse_args(arguments)
    sets = [name for name in asked.sets if present(name)]
    if not sets:
        print("The judged sets are not beside this checkout (../shared/data): nothing was measured.", file=sys.stderr)
        return 2
    encoder = OnnxEncoder.open(ModelLibrary(asked.models).add("default"))
    queries = OnnxEncoder.open(encoder.model, EncoderOptions(fast_queries=not asked.own_weights))
    bulk = OnnxPassageEncoder(encoder, threads=2)
    short = False
    for name in sets:
        judged = JudgedSet.of(read(name))
        rows = vectors(bulk, judged, ROOT / ".data" / "quality")
        print(f"{name}: {len(judged.passages)} passages, {len(judged.queries)} queries")
        print(f"  {'':18}{'nDCG@10':>9}{'reference':>11}{'Recall@100':>12}{'reference':>11}")
        with (
            tempfile.TemporaryDirectory() as folder,
            retriever(judged, queries, rows, Path(folder)) as searching,
            asyncio.Runner() as runner,
        ):
            for label, search in SEARCHES.items():
                found = runner.run(run(searching, judged, search))
                ndcg, recall = judge(judged, found)
                wanted = REFERENCE.get(name, {}).get(label, (float("nan"), float("nan")))
                print(f"  {label:18}{ndcg:9.4f}{wanted[0]:11.4f}{recall:12.4f}{wanted[1]:11.4f}")
                short |= label == "hybrid, rrf" and ndcg < wanted[0] - 0.01
                if asked.runs:
                    write_run(asked.runs / f"{name}-{label.replace(', ', '-')}.run", label, found)
    return int(short)


def write_run(file: Path, label: str, found: dict[str, dict[str, float]]) -> None:
    """The run in TREC's format."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tag = label.replace(", ", "-")
    with file.open("w") as stream:
        for query, scores in found.items():
            for rank, (document, score) in enumerate(scores.items(), 1):
                stream.write(f"{query} Q0 {document} {rank} {score!r} {tag}\n")


if __name__ == "__main__":
    sys.exit(main())
