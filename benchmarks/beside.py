"""Quality to stand beside speed: what an approximate index keeps of an exact one, what peers reach."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assembly import StorageOptions, embedder
from benchmarks import beir, quality
from benchmarks.peer import Peer
from benchmarks.quality import JudgedSet
from benchmarks.synthetic import Synthetic
from pipeline.passages import Leg
from pipeline.profile import Search
from retrieve.dense import DenseOptions
from retrieve.encoder import EncoderOptions, OnnxEncoder, OnnxPassageEncoder
from retrieve.generation import Generation
from retrieve.model_library import ModelLibrary
from retrieve.segment_writing import GenerationOptions
from retrieve.verifying import Verifier

ROOT = Path(__file__).resolve().parents[1]
SETS = ("scifact", "cranfield")
DEPTH = 100
AT_ONCE = 100_000  # rows compared together
SERVED = EncoderOptions(fast_queries=True)  # how the service encodes queries


@dataclass(frozen=True, slots=True)
class Kept:
    """One judged set searched with a forced kind of dense index: recall@100 of the dense leg against exact search for
    the same query vectors, and hybrid nDCG@10 as it is served, and without any of what trades quality for speed: an
    exact index, and queries encoded by the graph that documents are."""

    name: str
    recall: float
    ndcg: float
    exact_ndcg: float


def missing() -> list[str]:
    """Judged sets that do not lie beside this checkout."""
    return [name for name in SETS if not beir.present(name)]


def kept_by(options: DenseOptions) -> tuple[Kept, ...]:
    """What an index made by these options keeps on each judged set that is there."""
    model = ModelLibrary(ROOT / ".data" / "models").add("default")
    encoder, fast = OnnxEncoder.open(model), OnnxEncoder.open(model, SERVED)
    return tuple(_kept(name, options, encoder, fast) for name in SETS if beir.present(name))


def recall_of(data: Synthetic, questions: Sequence[str], *, depth: int = DEPTH) -> float:
    """Mean recall@100 of the dense index that serves a set, against exact search, for really encoded questions."""
    encoder = OnnxEncoder.open(embedder(StorageOptions(data.data), "default"), SERVED)
    generation = Generation.open(data.ref, embedder=data.embedder, verifier=Verifier(data.data / "stamps"))
    vectors = np.stack([encoder.encode_ids([encoder.tokenize(question)])[0] for question in questions])
    exact = nearest(data.vectors(), vectors, depth)
    (segment,) = generation.segments
    found = [segment.dense.search(vector, depth).rows.tolist() for vector in vectors]
    return _recall(exact, found)


def nearest(rows: NDArray[np.float32], vectors: NDArray[np.float32], depth: int) -> list[list[int]]:
    """For each of the vectors its nearest rows, exactly, a part of the rows at a time."""
    scores = np.empty((len(vectors), 0), np.float32)
    places = np.empty((len(vectors), 0), np.int64)
    for first in range(0, len(rows), AT_ONCE):
        some = vectors @ rows[first : first + AT_ONCE].T
        scores = np.concatenate([scores, some], axis=1)
        numbers = np.broadcast_to(np.arange(first, first + some.shape[1]), some.shape)
        places = np.concatenate([places, numbers], axis=1)
        best = np.argpartition(-scores, min(depth, scores.shape[1]) - 1, axis=1)[:, :depth]
        scores, places = np.take_along_axis(scores, best, axis=1), np.take_along_axis(places, best, axis=1)
    found: list[list[int]] = np.take_along_axis(places, np.argsort(-scores, axis=1), axis=1).tolist()
    return found


def peers_ndcg(commands: Mapping[str, Sequence[str | Path]], logs: Path) -> dict[str, dict[str, float]]:
    """nDCG@10 by peer and judged set; a peer's command takes the folder of the set in place of `FOLDER`."""
    encoder = OnnxEncoder.open(ModelLibrary(ROOT / ".data" / "models").add("default"))
    reached: dict[str, dict[str, float]] = {name: {} for name in commands}
    for name in (name for name in SETS if beir.present(name)):
        judged = JudgedSet.of(beir.read(name))
        with tempfile.TemporaryDirectory() as folder:
            _write(judged, encoder, Path(folder))
            for peer, command in commands.items():
                given = [folder if part == "FOLDER" else part for part in command]
                with Peer.open(given, logs / f"{name}.log") as answering:
                    found = {
                        query: {
                            judged.passages[row].document_id: -float(rank)
                            for rank, row in enumerate(answering.search(text).rows)
                        }
                        for query, text in judged.queries.items()
                    }
                reached[peer][name] = quality.judge(judged, found)[0]
    return reached


def _kept(name: str, options: DenseOptions, encoder: OnnxEncoder, fast: OnnxEncoder) -> Kept:
    judged = JudgedSet.of(beir.read(name))
    rows = quality.vectors(OnnxPassageEncoder(encoder, threads=2), judged, ROOT / ".data" / "quality")
    exact = replace(options, exact_up_to=len(rows))

    def hybrid_and_dense(queries: OnnxEncoder, chosen: DenseOptions) -> tuple[float, dict[str, dict[str, float]]]:
        with (
            tempfile.TemporaryDirectory() as folder,
            quality.retriever(judged, queries, rows, Path(folder), GenerationOptions(dense=chosen)) as searching,
            asyncio.Runner() as runner,
        ):
            hybrid = runner.run(quality.run(searching, judged, Search()))
            dense = runner.run(quality.run(searching, judged, Search(legs=(Leg.DENSE,))))
        return quality.judge(judged, hybrid)[0], dense

    full, _ = hybrid_and_dense(encoder, exact)
    _, nearest_ = hybrid_and_dense(fast, exact)
    served, found = hybrid_and_dense(fast, options)
    recall = float(np.mean([len(nearest_[query].keys() & found[query].keys()) / DEPTH for query in nearest_]))
    return Kept(name, recall, served, full)


def _recall(exact: list[list[int]], found: list[list[int]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(exact, found, strict=True)]))


def _write(judged: JudgedSet, encoder: OnnxEncoder, folder: Path) -> None:
    with (folder / "passages.jsonl").open("w") as lines:
        for passage in judged.passages:
            lines.write(json.dumps({"title": "", "text": passage.text}) + "\n")
    np.save(
        folder / "vectors.npy",
        quality.vectors(OnnxPassageEncoder(encoder, threads=2), judged, ROOT / ".data" / "quality"),
    )
