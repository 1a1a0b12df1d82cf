"""What every implementation of DenseSearch promises: the kinds on a CPU, a GPU, and what stands for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import faiss
import numpy as np
import pytest

from pipeline.errors import Misconfigured
from retrieve.dense import DenseIndex, DenseOptions, DenseSearch
from retrieve.dense_building import write_dense
from retrieve.gpu_dense import GpuDenseIndex, GpuMemory
from tests.fakes_gpu import FakeGpuLibrary
from tests.oracles.test_dense import clustered

ROWS, DIMENSIONS, K = 12_000, 64, 20
VECTORS = clustered(ROWS + 30)
QUERIES = VECTORS[ROWS:]
SEED = 5


def by_options(options: DenseOptions) -> Callable[[Path, np.ndarray], DenseSearch]:
    def opened(folder: Path, vectors: np.ndarray) -> DenseSearch:
        write_dense(folder / "vectors.faiss", vectors, options)
        return DenseIndex.open(folder / "vectors.faiss", vectors, options)

    return opened


def graph(folder: Path, vectors: np.ndarray) -> DenseSearch:
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    cast("Any", index).add(vectors)
    faiss.write_index(index, str(folder / "vectors.faiss"))
    return DenseIndex.open(folder / "vectors.faiss", vectors, DenseOptions())


def fake_gpu(_: Path, vectors: np.ndarray) -> DenseSearch:
    return GpuDenseIndex(vectors, GpuMemory.open(FakeGpuLibrary()))


def real_gpu(_: Path, vectors: np.ndarray) -> DenseSearch:
    try:
        return GpuDenseIndex(vectors, GpuMemory.open())
    except Misconfigured as error:
        pytest.skip(str(error))


KINDS = {
    "flat": by_options(DenseOptions()),
    "scan": by_options(DenseOptions(exact_up_to=0)),
    "lists": by_options(DenseOptions(exact_up_to=0, scanned_up_to=0)),
    "graph": graph,
    "fake gpu": fake_gpu,
    "gpu": real_gpu,
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.gpu if kind == "gpu" else ()) for kind in KINDS],
)
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DenseSearch:
    made = KINDS[request.param](tmp_path_factory.mktemp("index"), VECTORS[:ROWS])
    made.warm_up()
    return made


def nearest(query: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[int]:
    scores = VECTORS[:ROWS] @ query
    if allowed is not None:
        scores = np.where(allowed != 0, scores, -np.inf)
    rows: list[int] = np.argsort(-scores, kind="stable")[:k].tolist()
    return rows


def test_nearly_all_of_the_nearest_are_found_best_first_with_their_scores(index: DenseSearch) -> None:
    shared = 0
    for query in QUERIES:
        found = index.search(query, K)
        shared += len(set(found.rows.tolist()) & set(nearest(query, K)))
        assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
        np.testing.assert_allclose(found.scores, VECTORS[found.rows] @ query, atol=1e-5)
    assert shared / (K * len(QUERIES)) > 0.95


@pytest.mark.parametrize("share", [0.9, 0.5, 0.02, 0.0005])
def test_under_a_filter_only_allowed_rows_are_found_and_nearly_all_of_them(index: DenseSearch, share: float) -> None:
    allowed = (np.random.default_rng(SEED).random(ROWS) < share).astype(np.uint8)
    wanted = min(K, int(allowed.sum()))
    shared = 0
    for query in QUERIES:
        found = index.search(query, K, allowed)
        assert len(found.rows) == wanted
        assert allowed[found.rows].all()
        shared += len(set(found.rows.tolist()) & set(nearest(query, wanted, allowed)))
    assert shared / (wanted * len(QUERIES)) > 0.95


def test_a_filter_that_allows_only_what_is_far_is_answered_exactly(index: DenseSearch) -> None:
    """Half of the rows are allowed, none of them near: whatever an index brings, all of it is refused."""
    query = QUERIES[0]
    allowed = np.ones(ROWS, np.uint8)
    allowed[nearest(query, ROWS // 2)] = 0
    assert index.search(query, K, allowed).rows.tolist() == nearest(query, K, allowed)


def test_a_filter_that_allows_nothing_finds_nothing(index: DenseSearch) -> None:
    assert len(index.search(QUERIES[0], K, np.zeros(ROWS, np.uint8)).rows) == 0


def test_no_more_rows_than_were_asked_for(index: DenseSearch) -> None:
    assert [len(index.search(QUERIES[0], k).rows) for k in (0, 1, 7)] == [0, 1, 7]
