"""Searches under filters and tombstones beside the obvious: score everything, drop what may not be found, sort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.filters import Comparison, Op
from retrieve.allowed import Allowed
from retrieve.coded import CodedOptions
from retrieve.dense import DenseIndex, DenseOptions
from retrieve.dense_building import FLAT, LISTS, SCAN, write_dense
from retrieve.filtering import mask_of
from retrieve.generation import Generation
from retrieve.hybrid import search_terms, search_vector
from retrieve.segment_writing import GenerationOptions
from retrieve.shelf import ROW_BITS
from tests.fakes_shelf import make_passage
from tests.generations import changed, opened, published
from tests.oracles.test_dense import CODES, LISTED, clustered
from tests.searching import query

ROWS, DELTA, ASKED, K = 6000, 60, 25, 20
SHARES = [900, 500, 200, 100, 10, 1]  # of a thousand
VECTORS = clustered(ROWS + DELTA + ASKED)
SEED = 31
OPTIONS = {FLAT: DenseOptions(), SCAN: CODES, LISTS: LISTED}
BY_CODES = CodedOptions(exact_up_to=0, codes_a_vector=10**9)  # never all vectors, though it would be cheaper here


def place_of(document: int) -> int:
    """0 to 999, every value equally often, in no order."""
    return document * 7919 % 1000


@pytest.fixture(scope="module", params=OPTIONS)
def kind_and_generation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Generation]:
    """6,000 passages, of which 30 were replaced and 30 removed, and as many are new."""
    words = np.random.default_rng(SEED).choice([f"w{number}" for number in range(50)], (ROWS + DELTA, 6))
    made = [
        make_passage(f"d{number:05}", 0, " ".join(words[number]), metadata={"place": place_of(number)})
        for number in range(ROWS + DELTA)
    ]
    options = GenerationOptions(dense=OPTIONS[request.param])
    base = published(tmp_path_factory.mktemp("masks"), made[:ROWS], VECTORS[:ROWS], options=options)
    again = [make_passage(f"d{number:05}", 0, "w1 again", metadata={"place": 3}) for number in range(30)]
    fresh, rows = [*again, *made[ROWS:]], VECTORS[ROWS - 30 : ROWS + DELTA]
    gone = [f"d{number:05}" for number in range(100, 130)]
    generation = Generation.open(changed(base, fresh, rows, gone=gone, options=options), embedder="fake-embedder")
    return request.param, generation


def allowed_by(generation: Generation, share: int) -> Allowed:
    asked = Comparison("place", Op.LT, share)
    return Allowed(generation.segments, mask_of(generation.segments, asked, frozenset()))


def naive(generation: Generation, allowed: Allowed, scores: list[np.ndarray], k: int, least: float) -> list[int]:
    keys = np.concatenate([(n << ROW_BITS) + np.arange(segment.rows) for n, segment in enumerate(generation.segments)])
    may = np.concatenate(
        [np.ones(s.rows, bool) if (a := allowed.at(n)) is None else a != 0 for n, s in enumerate(generation.segments)]
    )
    every = np.where(may, np.concatenate(scores), -np.inf)
    order = np.lexsort((keys, -every))[:k]
    found: list[int] = keys[order][every[order] > least].tolist()
    return found


@pytest.mark.parametrize("share", SHARES)
def test_the_dense_leg_finds_the_nearest_of_what_it_may(
    kind_and_generation: tuple[str, Generation], share: int
) -> None:
    kind, generation = kind_and_generation
    allowed = allowed_by(generation, share)
    shared = wanted = 0
    for vector in VECTORS[-ASKED:]:
        exact = naive(generation, allowed, [segment.vectors @ vector for segment in generation.segments], K, -np.inf)
        found = search_vector(vector, generation.segments, K, allowed)
        assert len(found.keys) == len(exact), "as many as asked for, or as there are"
        assert set(found.keys) <= set(
            naive(generation, allowed, [np.ones(s.rows) for s in generation.segments], 10**6, 0)
        )
        shared, wanted = shared + len(set(found.keys) & set(exact)), wanted + len(exact)
        if kind == FLAT:
            assert list(found.keys) == exact
    assert shared >= 0.95 * wanted


@pytest.mark.parametrize("share", SHARES)
def test_the_lexical_leg_ranks_what_it_may_as_without_the_filter(
    kind_and_generation: tuple[str, Generation], share: int
) -> None:
    _, generation = kind_and_generation
    allowed = allowed_by(generation, share)
    for text in ("w1", "w2 w3 w4", "w1 w49 again", "w7 w7"):
        everything = search_terms(query(text), (generation,), ROWS + DELTA, 256).found
        found = search_terms(query(text), (generation,), K, 256, allowed).found
        assert everything is not None
        assert found is not None
        may = [
            (key, score) for key, score in zip(everything.keys, everything.scores, strict=True) if _may(allowed, key)
        ]
        assert list(zip(found.keys, found.scores, strict=True)) == may[:K]


def _may(allowed: Allowed, key: int) -> bool:
    mask = allowed.at(key >> ROW_BITS)
    return mask is None or bool(mask[key & ((1 << ROW_BITS) - 1)])


@pytest.mark.parametrize("kind", [SCAN, LISTS])
@pytest.mark.parametrize("share", SHARES)
def test_codes_find_nearly_all_of_the_nearest_that_are_allowed(tmp_path: Path, kind: str, share: int) -> None:
    """Also where comparing all allowed vectors would be cheaper, as it is in so small a set."""
    vectors = VECTORS[:ROWS]
    write_dense(tmp_path / "index", vectors, OPTIONS[kind])
    index = DenseIndex.open(tmp_path / "index", vectors, OPTIONS[kind], BY_CODES)
    allowed = (np.arange(ROWS) * 7919 % 1000 < share).astype(np.uint8)
    k = min(K, int(allowed.sum()))
    shared = 0
    for vector in VECTORS[-ASKED:]:
        exact = np.argsort(np.where(allowed != 0, -(vectors @ vector), np.inf), kind="stable")[:k]
        found = index.search(vector, K, allowed)
        assert len(found.rows) == k
        assert allowed[found.rows].all()
        shared += len(set(found.rows.tolist()) & set(exact.tolist()))
    assert shared >= 0.95 * k * ASKED


@pytest.mark.parametrize("kind", [FLAT, SCAN, LISTS])
def test_a_replaced_document_that_a_query_would_find_costs_no_recall(tmp_path: Path, kind: str) -> None:
    """All that is nearest is dead: the old version of what was asked for."""
    vectors = VECTORS[:ROWS]
    write_dense(tmp_path / "index", vectors, OPTIONS[kind])
    index = DenseIndex.open(tmp_path / "index", vectors, OPTIONS[kind], BY_CODES)
    for vector in VECTORS[-ASKED:]:
        order = np.argsort(-(vectors @ vector), kind="stable")
        alive = np.ones(ROWS, np.uint8)
        alive[order[:300]] = 0
        found = index.search(vector, K, alive)
        assert len(set(found.rows.tolist()) & set(order[300 : 300 + K].tolist())) >= 0.9 * K


def test_masks_that_nobody_may_write_to_are_searched_by(kind_and_generation: tuple[str, Generation]) -> None:
    _, generation = kind_and_generation
    mask = np.zeros(generation.segments[0].rows, np.uint8)
    mask[5000] = 1
    mask.flags.writeable = False
    none = np.zeros(generation.segments[1].rows, np.uint8)
    allowed = Allowed(generation.segments, [mask, none])
    text = generation.segments[0].table.passage(5000).text
    found = search_terms(query(text), (generation,), K, 256, allowed).found
    assert found is not None
    assert list(found.keys) == [5000]
    assert list(search_vector(VECTORS[1], generation.segments, K, allowed).keys) == [5000]


def test_nothing_dead_and_nothing_asked_is_no_mask(tmp_path: Path) -> None:
    generation = opened(published(tmp_path, [make_passage("d", 0, "w1")]))
    assert mask_of(generation.segments, None, frozenset({"staff"})) == [None]
    assert Allowed.living(generation.segments).at(0) is None
    (segment,) = generation.segments
    assert segment.whole is None
