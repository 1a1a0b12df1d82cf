"""Fast against obvious: our postings and kernel beside rank-bm25 with Lucene's formula, and beside bm25s."""

from __future__ import annotations

from collections import Counter
from math import log

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from retrieve.lexical import LexicalIndex, Statistics
from retrieve.postings import Bm25Options, PostingsBuilder

SEED = 7
WORDS = tuple("amber bridge canal depot ember ferry gate harbour island jetty kiosk lamp".split())
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=12)
queries = st.lists(st.sampled_from((*WORDS, "unknown")), min_size=1, max_size=6)


class LuceneBm25(BM25Okapi):
    """rank-bm25's loop with the idf and the saturation of Lucene 8."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        for word, frequency in nd.items():
            self.idf[word] = log(1 + (self.corpus_size - frequency + 0.5) / (frequency + 0.5))

    def get_scores(self, query: list[str]) -> np.ndarray:
        return super().get_scores(query) / (self.k1 + 1)


def index_of(documents: list[list[str]], options: Bm25Options | None = None) -> LexicalIndex:
    builder = PostingsBuilder(options)
    for words in documents:
        builder.add(" ".join(words), None)
    return LexicalIndex(builder.build())


def scores_of(index: LexicalIndex, query: list[str], documents: int) -> np.ndarray:
    found = index.search({term: float(count) for term, count in Counter(query).items()}, documents)
    scores = np.zeros(documents)
    scores[found.rows] = found.scores
    return scores


@settings(max_examples=200, deadline=None)
@given(texts.filter(any), queries)
def test_every_score_is_that_of_rank_bm25_with_lucenes_formula(documents: list[list[str]], query: list[str]) -> None:
    oracle = LuceneBm25(documents, k1=1.5, b=0.75)
    np.testing.assert_allclose(
        scores_of(index_of(documents), query, len(documents)), oracle.get_scores(query), atol=1e-4
    )


@settings(max_examples=50, deadline=None)
@given(texts.filter(any), queries, st.floats(0.2, 3), st.floats(0, 1))
def test_every_score_is_that_of_bm25s_for_any_k1_and_b(
    documents: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    oracle = bm25s.BM25(method="lucene", k1=k1, b=b)
    oracle.index(documents, show_progress=False)
    known = [word for word in query if word in oracle.vocab_dict]
    expected = oracle.get_scores(known) if known else np.zeros(len(documents))
    np.testing.assert_allclose(
        scores_of(index_of(documents, Bm25Options(k1, b)), query, len(documents)), expected, atol=1e-4
    )


@pytest.fixture(scope="module")
def large() -> list[list[str]]:
    draw = np.random.default_rng(SEED)
    vocabulary = np.array([f"w{number}" for number in range(800)])
    popularity = 1 / np.arange(1, 801)
    popularity /= popularity.sum()
    return [list(draw.choice(vocabulary, draw.integers(0, 60), p=popularity)) for _ in range(3000)]


@pytest.mark.parametrize("k", [1, 10, 100, 5000])
def test_the_best_are_bm25s_best_and_ties_go_to_the_lower_row(large: list[list[str]], k: int) -> None:
    index = index_of(large)
    oracle = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    oracle.index(large, show_progress=False)
    for query in (["w0"], ["w3", "w40"], ["w700", "w1", "w2"], ["w5"] * 3 + ["w9"]):
        scores = oracle.get_scores(query)
        found = index.search({term: float(count) for term, count in Counter(query).items()}, k)
        touched = int((scores > 0).sum())
        assert len(found.rows) == min(k, touched)
        np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][: len(found.rows)], atol=1e-4)
        np.testing.assert_allclose(found.scores, scores[found.rows], atol=1e-4)
        order = np.lexsort((found.rows, -found.scores))
        assert order.tolist() == list(range(len(found.rows)))


def test_equal_documents_are_listed_by_row_even_where_the_list_is_cut() -> None:
    index = index_of([["amber"]] * 50)
    for k in (1, 7, 50):
        assert index.search({"amber": 1.0}, k).rows.tolist() == list(range(k))


def test_a_search_leaves_nothing_behind_for_the_next(large: list[list[str]]) -> None:
    index = index_of(large)
    first = index.search({"w1": 1.0, "w2": 1.0}, 50)
    index.search({"w0": 1.0, "w9": 2.0}, 50)
    again = index.search({"w1": 1.0, "w2": 1.0}, 50)
    assert (again.rows.tolist(), again.scores.tolist()) == (first.rows.tolist(), first.scores.tolist())


def test_rows_that_are_not_allowed_are_left_out_and_the_others_keep_their_scores(large: list[list[str]]) -> None:
    index = index_of(large)
    everything = index.search({"w0": 1.0, "w5": 1.0}, len(large))
    allowed = (np.random.default_rng(SEED).random(len(large)) < 0.1).astype(np.uint8)
    some = index.search({"w0": 1.0, "w5": 1.0}, len(large), allowed=allowed)
    kept = allowed[everything.rows] == 1
    assert some.rows.tolist() == everything.rows[kept].tolist()
    assert some.scores.tolist() == everything.scores[kept].tolist()


def test_parts_searched_as_one_take_idf_over_all_of_them(large: list[list[str]]) -> None:
    parts = [index_of(large[:1000]), index_of(large[1000:])]
    terms = {"w4": 1.0, "w33": 1.0}
    all_of_it = index_of(large)
    together = Statistics.of(parts, [part.find(terms) for part in parts])
    whole = Statistics.of([all_of_it], [all_of_it.find(terms)])
    assert (together.documents, dict(together.frequencies)) == (whole.documents, dict(whole.frequencies))
    alone = parts[0].search(terms, 10)
    shared = parts[0].search(terms, 10, statistics=together)
    assert not np.allclose(alone.scores, shared.scores)


@pytest.mark.parametrize("terms", [{}, {"unknown": 1.0}])
def test_terms_that_occur_nowhere_find_nothing(terms: dict[str, float]) -> None:
    assert len(index_of([["amber"], []]).search(terms, 10).rows) == 0


def test_an_index_of_nothing_finds_nothing() -> None:
    assert len(index_of([]).search({"amber": 1.0}, 10).rows) == 0
