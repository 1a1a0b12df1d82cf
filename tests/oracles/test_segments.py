"""Base, deltas and tombstones beside one index that is built at once of what is alive.

Vectors: the same ranking. Words: idf counts the dead too, and lengths are measured by the base's average, until a
compaction; by how much scores may differ is bounded here, and nothing is left of it afterwards.
"""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np
import pytest

from pipeline.passages import Passage
from pipeline.ports import GenerationRef
from retrieve.generation import Generation
from retrieve.hybrid import search_terms, search_vector, weighted_terms
from retrieve.lexical import Statistics
from retrieve.shelf import GenerationShelf
from tests.fakes_shelf import make_passage
from tests.generations import changed, directions, opened, published
from tests.searching import query

SEED = 23
WORDS = [f"w{number}" for number in range(120)]
DOCUMENTS, ROUNDS = 150, 6
QUERIES = ["w0 w1", "w3 w40 w90", "w7", "w2 w2 w110", "w5 w60 w61 w62"]
K1, B = 1.5, 0.75


def drawn(draw: np.random.Generator, document: int, longer: int) -> tuple[list[Passage], np.ndarray]:
    popularity = 1 / np.arange(1, len(WORDS) + 1)
    made = [
        make_passage(
            f"d{document:03}",
            ordinal,
            " ".join(draw.choice(WORDS, draw.integers(4, 12 + longer), p=popularity / popularity.sum())),
        )
        for ordinal in range(draw.integers(1, 4))
    ]
    return made, directions(len(made), seed=int(draw.integers(1 << 30)))


@pytest.fixture(scope="module", params=["some", "many"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Generation, Generation]:
    """A collection after several publishes, and the same documents published at once. `many` replaces most of it by
    documents that are twice as long."""
    folder = tmp_path_factory.mktemp("both")
    draw = np.random.default_rng(SEED)
    kept = {number: drawn(draw, number, 0) for number in range(DOCUMENTS)}
    ref = whole(folder / "grown", kept)
    share = 4 if request.param == "some" else 40
    for _ in range(ROUNDS):
        touched = draw.choice(DOCUMENTS, share, replace=False)
        removed = [int(number) for number in touched[: share // 4]]
        fresh = {int(number): drawn(draw, int(number), 0 if share == 4 else 12) for number in touched[share // 4 :]}
        for number in removed:
            kept.pop(number, None)
        kept.update(fresh)
        passages = [passage for made, _ in fresh.values() for passage in made]
        rows = np.concatenate([vectors for _, vectors in fresh.values()])
        ref = changed(ref, passages, rows, gone=[f"d{number:03}" for number in removed])
    return opened(ref), opened(whole(folder / "at-once", dict(sorted(kept.items()))))


def whole(folder: Path, documents: dict[int, tuple[list[Passage], np.ndarray]]) -> GenerationRef:
    passages = [passage for made, _ in documents.values() for passage in made]
    return published(folder, passages, np.concatenate([rows for _, rows in documents.values()]))


def ids(generation: Generation, keys: object) -> list[str]:
    return [passage.id for passage in GenerationShelf((generation,)).passages(list(keys))]  # type: ignore[call-overload]


def test_the_same_passages_are_alive(both: tuple[Generation, Generation]) -> None:
    grown, at_once = both
    assert len(grown.segments) == ROUNDS + 1
    assert (grown.rows, grown.manifest.documents) == (at_once.rows, at_once.manifest.documents)


def test_vectors_are_ranked_as_by_one_index(both: tuple[Generation, Generation]) -> None:
    for vector in directions(20, seed=SEED):
        grown, at_once = (search_vector(vector, each.segments, 50) for each in both)
        assert ids(both[0], grown.keys) == ids(both[1], at_once.keys)
        np.testing.assert_allclose(grown.scores, at_once.scores, atol=1e-6)


def statistics_of(generation: Generation, text: str) -> Statistics:
    terms = generation.analyzer.terms(text)
    indexes = [segment.lexical for segment in generation.segments]
    return Statistics.of(indexes, [index.find(terms) for index in indexes])


def scores_of(generation: Generation, text: str) -> dict[str, float]:
    found = search_terms(query(text), (generation,), 10_000, 256).found
    assert found is not None
    return dict(zip(ids(generation, found.keys), found.scores, strict=True))


def test_words_differ_by_no_more_than_the_dead_and_the_average_length_explain(
    both: tuple[Generation, Generation],
) -> None:
    """For a term in n of N live passages, and d dead ones, idf lies between that of n + d of N + d and that of n of
    N + d; impacts change by no more than the ratio of the average lengths. Nothing else may differ."""
    grown, at_once = both
    dead = sum(segment.rows for segment in grown.segments) - grown.rows
    ratio = grown.segments[0].info.average_length / at_once.segments[0].info.average_length
    for text in QUERIES:
        live, combined = statistics_of(at_once, text), statistics_of(grown, text)
        assert combined.documents == live.documents + dead
        factors: list[float] = []
        for term in weighted_terms(query(text), at_once):
            if term not in live.frequencies:
                continue
            n = live.frequencies[term]
            lowest = log(1 + (live.documents - n + 0.5) / (n + dead + 0.5))
            highest = log(1 + (live.documents + dead - n + 0.5) / (n + 0.5))
            assert lowest <= combined.idf(term) <= highest
            factors.append(combined.idf(term) / live.idf(term))
        mine, theirs = scores_of(grown, text), scores_of(at_once, text)
        assert mine.keys() == theirs.keys()
        for identity, score in theirs.items():
            lowest, highest = min(factors) * min(ratio, 1) * score, max(factors) * max(ratio, 1) * score
            assert lowest - 1e-4 <= mine[identity] <= highest + 1e-4


def test_while_little_has_changed_words_are_ranked_nearly_as_by_one_index(tmp_path: Path) -> None:
    """Of 150 documents 6 are replaced and 2 gone: no score is off by more than 6 %, and the best ten share nine."""
    draw = np.random.default_rng(SEED)
    kept = {number: drawn(draw, number, 0) for number in range(DOCUMENTS)}
    before = whole(tmp_path / "grown", kept)
    fresh = {number: drawn(draw, number, 0) for number in range(6)}
    passages = [passage for made, _ in fresh.values() for passage in made]
    grown = opened(changed(before, passages, gone=["d148", "d149"]))
    at_once = opened(whole(tmp_path / "at-once", {n: v for n, v in {**kept, **fresh}.items() if n < 148}))
    for text in QUERIES:
        mine, theirs = scores_of(grown, text), scores_of(at_once, text)
        assert max(abs(mine[identity] / score - 1) for identity, score in theirs.items()) < 0.06
        assert len(set(list(mine)[:10]) & set(list(theirs)[:10])) >= 9


def test_after_a_compaction_nothing_differs(both: tuple[Generation, Generation], tmp_path: Path) -> None:
    grown, at_once = both
    shelf = GenerationShelf((grown,))
    alive = [
        (segment.table.passage(row), segment.vectors[row])
        for segment in shelf.segments
        for row in range(segment.rows)
        if segment.alive is None or segment.alive[row]
    ]
    alive.sort(key=lambda each: (each[0].document_id, each[0].ordinal))
    ref = published(tmp_path, [passage for passage, _ in alive], np.stack([vector for _, vector in alive]))
    compacted = opened(ref)
    assert compacted.segments[0].info.name == at_once.segments[0].info.name, "equal to the byte"
    for text in QUERIES:
        assert scores_of(compacted, text) == scores_of(at_once, text)
