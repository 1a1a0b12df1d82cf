"""Fast against exact: the graph beside the flat index, and the flat index beside numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import Misconfigured
from retrieve.dense import FLAT, HNSW, DenseIndex, DenseOptions, GpuDenseIndex, GpuMemory, write_dense
from tests.generations import directions

SEED = 11


def clustered(rows: int, dimensions: int = 64) -> np.ndarray:
    """Vectors as embeddings lie: around a few hundred topics."""
    draw = np.random.default_rng(SEED)
    topics = draw.standard_normal((200, dimensions))
    drawn = topics[draw.integers(0, 200, rows)] + 0.6 * draw.standard_normal((rows, dimensions))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def index_of(folder: Path, vectors: np.ndarray, options: DenseOptions) -> tuple[str, DenseIndex]:
    kind = write_dense(folder / "vectors.faiss", vectors, options)
    return kind, DenseIndex.open(folder / "vectors.faiss", options)


def test_up_to_the_limit_search_is_exact(tmp_path: Path) -> None:
    vectors = directions(500)
    kind, index = index_of(tmp_path, vectors, DenseOptions(exact_up_to=500))
    assert kind == FLAT
    for query in directions(20, seed=SEED):
        scores = vectors @ query
        found = index.search(query, 25)
        assert found.rows.tolist() == np.argsort(-scores, kind="stable")[:25].tolist()
        np.testing.assert_allclose(found.scores, scores[found.rows], atol=1e-6)


def test_above_the_limit_the_graph_finds_nearly_all_of_the_nearest(tmp_path: Path) -> None:
    vectors = clustered(6000)
    (tmp_path / "flat").mkdir()
    _, flat = index_of(tmp_path / "flat", vectors, DenseOptions())
    kind, graph = index_of(tmp_path, vectors, DenseOptions(exact_up_to=100))
    assert kind == HNSW
    shared = [
        len(set(flat.search(query, 100).rows.tolist()) & set(graph.search(query, 100).rows.tolist()))
        for query in clustered(6100)[6000:]
    ]
    assert float(np.mean(shared)) > 95


def test_a_longer_list_while_searching_finds_no_less(tmp_path: Path) -> None:
    vectors = directions(3000, 48)
    queries = directions(50, 48, seed=SEED)

    def recall(ef: int) -> float:
        _, graph = index_of(tmp_path, vectors, DenseOptions(exact_up_to=0, ef_search=ef))
        nearest = [set(np.argsort(-(vectors @ query))[:10].tolist()) for query in queries]
        found = [set(graph.search(query, 10).rows.tolist()) for query in queries]
        return float(np.mean([len(a & b) / 10 for a, b in zip(nearest, found, strict=True)]))

    assert recall(16) < recall(512)
    assert recall(512) > 0.98


def test_equal_vectors_are_listed_by_row(tmp_path: Path) -> None:
    vectors = np.repeat(directions(1), 8, axis=0)
    _, index = index_of(tmp_path, vectors, DenseOptions())
    assert index.search(vectors[0], 8).rows.tolist() == list(range(8))


@pytest.mark.parametrize("exact_up_to", [0, 100])
def test_fewer_vectors_than_asked_for_are_all_found_and_none_is_none(tmp_path: Path, exact_up_to: int) -> None:
    for rows in (3, 0):
        _, index = index_of(tmp_path, directions(rows), DenseOptions(exact_up_to=exact_up_to))
        assert len(index.search(directions(1)[0], 10).rows) == rows


@pytest.mark.gpu
def test_a_gpu_finds_what_the_flat_index_finds(tmp_path: Path) -> None:
    try:
        memory = GpuMemory.open()
    except Misconfigured as error:
        pytest.skip(str(error))
    vectors = clustered(5000)
    _, flat = index_of(tmp_path, vectors, DenseOptions())
    gpu = GpuDenseIndex(vectors, memory)
    gpu.warm_up()
    for query in clustered(5050)[5000:]:
        assert set(gpu.search(query, 50).rows.tolist()) == set(flat.search(query, 50).rows.tolist())
