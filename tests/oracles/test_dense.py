"""Fast against exact: codes, lists and the graph of earlier versions beside the flat index, and that beside numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import faiss
import numpy as np
import pytest

from pipeline.errors import Damaged
from retrieve.dense import DenseIndex, DenseOptions
from retrieve.dense_building import FLAT, LEAST_CODED, LISTS, SCAN, kind_for, write_dense
from tests.generations import directions

SEED = 11
CODES = DenseOptions(exact_up_to=0)
LISTED = DenseOptions(exact_up_to=0, scanned_up_to=0)
KINDS = {SCAN: CODES, LISTS: LISTED}


def clustered(rows: int, dimensions: int = 64) -> np.ndarray:
    """Vectors as embeddings lie: around a few hundred topics."""
    draw = np.random.default_rng(SEED)
    topics = draw.standard_normal((200, dimensions))
    drawn = topics[draw.integers(0, 200, rows)] + 0.6 * draw.standard_normal((rows, dimensions))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def index_of(folder: Path, vectors: np.ndarray, options: DenseOptions) -> tuple[str, DenseIndex]:
    folder.mkdir(exist_ok=True)
    kind = write_dense(folder / "vectors.faiss", vectors, options)
    np.save(folder / "vectors.npy", vectors)
    mapped = np.asarray(np.load(folder / "vectors.npy", mmap_mode="r"))
    return kind, DenseIndex.open(folder / "vectors.faiss", mapped, options)


def recall(index: DenseIndex, vectors: np.ndarray, queries: np.ndarray, k: int = 100) -> float:
    nearest = [set(np.argsort(-(vectors @ query), kind="stable")[:k].tolist()) for query in queries]
    found = [set(index.search(query, k).rows.tolist()) for query in queries]
    return float(np.mean([len(a & b) / k for a, b in zip(nearest, found, strict=True)]))


def test_how_many_vectors_there_are_chooses_the_kind() -> None:
    options = DenseOptions()
    assert [kind_for(rows, options) for rows in (20_000, 20_001, 200_000, 200_001)] == [FLAT, SCAN, SCAN, LISTS]
    assert [kind_for(rows, LISTED) for rows in (LEAST_CODED, LEAST_CODED + 1)] == [FLAT, LISTS]


def test_up_to_the_limit_search_is_exact(tmp_path: Path) -> None:
    vectors = directions(500)
    kind, index = index_of(tmp_path, vectors, DenseOptions(exact_up_to=500))
    assert kind == FLAT
    for query in directions(20, seed=SEED):
        scores = vectors @ query
        found = index.search(query, 25)
        assert found.rows.tolist() == np.argsort(-scores, kind="stable")[:25].tolist()
        np.testing.assert_allclose(found.scores, scores[found.rows], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_above_the_limit_nearly_all_of_the_nearest_are_found(tmp_path: Path, kind: str) -> None:
    vectors = clustered(6100)
    made, index = index_of(tmp_path, vectors[:6000], KINDS[kind])
    assert made == kind
    assert recall(index, vectors[:6000], vectors[6000:]) > 0.99


@pytest.mark.parametrize("kind", KINDS)
def test_the_scores_of_what_codes_find_are_exact_and_in_order(tmp_path: Path, kind: str) -> None:
    vectors = clustered(3000, 48)
    _, index = index_of(tmp_path, vectors, KINDS[kind])
    for query in directions(10, 48, seed=SEED):
        found = index.search(query, 50)
        np.testing.assert_allclose(found.scores, (vectors @ query)[found.rows], atol=1e-6)
        assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)


def test_comparing_more_exactly_finds_no_less(tmp_path: Path) -> None:
    vectors, queries = directions(3000, 48), directions(50, 48, seed=SEED)
    few, many = DenseOptions(0, compared=0, compared_each=1), DenseOptions(0, compared=0, compared_each=20)
    found = [recall(index_of(tmp_path, vectors, options)[1], vectors, queries, 10) for options in (few, many)]
    assert found[0] < found[1]
    assert found[1] > 0.98


def test_reading_more_lists_finds_no_less(tmp_path: Path) -> None:
    vectors, queries = directions(3000, 48), directions(50, 48, seed=SEED)
    few, many = (DenseOptions(0, 0, read_share=share, read_each=0) for share in (0.02, 1.0))
    found = [recall(index_of(tmp_path, vectors, options)[1], vectors, queries, 10) for options in (few, many)]
    assert found[0] < found[1]
    assert found[1] > 0.98


def test_an_odd_number_of_dimensions_has_codes_too(tmp_path: Path) -> None:
    vectors = clustered(2000, 33)
    _, index = index_of(tmp_path, vectors, CODES)
    assert recall(index, vectors, vectors[:20]) > 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_equal_vectors_make_equal_files(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        index_of(tmp_path / name, clustered(2000), KINDS[kind])
    assert (tmp_path / "a" / "vectors.faiss").read_bytes() == (tmp_path / "b" / "vectors.faiss").read_bytes()


@pytest.mark.parametrize("options", [DenseOptions(), CODES, LISTED])
def test_equal_vectors_are_listed_by_row(tmp_path: Path, options: DenseOptions) -> None:
    vectors = np.repeat(clustered(500), 8, axis=0)
    _, index = index_of(tmp_path, vectors, options)
    assert index.search(vectors[80], 8).rows.tolist() == list(range(80, 88))


@pytest.mark.parametrize("options", [DenseOptions(), CODES, LISTED])
def test_fewer_vectors_than_asked_for_are_all_found_and_none_is_none(tmp_path: Path, options: DenseOptions) -> None:
    for rows in (1100, 3, 0):
        _, index = index_of(tmp_path, directions(rows), options)
        assert len(index.search(directions(1)[0], 2000).rows) == rows


def test_the_graph_of_an_earlier_version_is_searched(tmp_path: Path) -> None:
    vectors = clustered(4100)
    graph = faiss.IndexHNSWFlat(64, 32, faiss.METRIC_INNER_PRODUCT)
    cast("Any", graph).add(vectors[:4000])
    faiss.write_index(graph, str(tmp_path / "vectors.faiss"))
    index = DenseIndex.open(tmp_path / "vectors.faiss", vectors[:4000], DenseOptions())
    assert recall(index, vectors[:4000], vectors[4000:]) > 0.95


def test_an_index_of_other_vectors_is_damaged(tmp_path: Path) -> None:
    write_dense(tmp_path / "vectors.faiss", directions(40), DenseOptions())
    with pytest.raises(Damaged, match="is of 40 x 16 vectors, and there are 41 x 16"):
        DenseIndex.open(tmp_path / "vectors.faiss", directions(41), DenseOptions())
