"""Stopping after any batch is a valid ranking, and more scored pairs do not make it worse."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from math import inf, log2, sqrt
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.passages import Ranking
from rerank.anytime import AnytimeOptions, Asked, Plan
from rerank.merging import as_fused, merged
from rerank.passage_tokens import PassageTokens
from tests.fakes_scorer import FakeScorer
from tests.fakes_shelf import candidates_on, shelf_of

steady = settings(deadline=None, derandomize=True)
SHELF = shelf_of([3] * 20)
SCORES = st.dictionaries(st.integers(0, 19), st.integers(-3, 3).map(float))


def order(ranking: Ranking) -> list[int]:
    return [ranked.candidate.key for ranked in ranking.items]


@steady
@given(SCORES)
def test_a_ranking_is_a_permutation_of_the_candidates_with_strictly_falling_scores(scores: dict[int, float]) -> None:
    ranking = merged(candidates_on(SHELF, range(20)), scores)
    assert sorted(order(ranking)) == list(range(20))
    assert all(before.score > after.score for before, after in pairwise(ranking.items))


@steady
@given(SCORES)
def test_who_was_not_scored_keeps_its_place(scores: dict[int, float]) -> None:
    ranking = merged(candidates_on(SHELF, range(20)), scores)
    assert all(order(ranking)[place] == place for place in range(20) if place not in scores)
    assert {ranked.candidate.key for ranked in ranking.items if ranked.rerank_score is None} == set(range(20)) - set(
        scores
    )


@steady
@given(SCORES)
def test_nobody_stands_behind_one_that_both_orders_put_behind_it(scores: dict[int, float]) -> None:
    """Where the fused order and the reranker agree on two candidates, or the reranker cannot tell, so it stays."""
    places = {key: place for place, key in enumerate(order(merged(candidates_on(SHELF, range(20)), scores)))}
    for (one, score), (other, lower) in combinations(sorted(scores.items()), 2):
        if score >= lower:
            assert places[one] < places[other]


@steady
@given(st.sets(st.integers(0, 19)), st.floats(-20, 20))
def test_equal_scores_keep_the_fused_order(scored: set[int], score: float) -> None:
    assert order(merged(candidates_on(SHELF, range(20)), dict.fromkeys(scored, score))) == list(range(20))


@steady
@given(SCORES, st.sampled_from([0.5, 2.0, 8.0]), st.integers(-9, 9))
def test_the_scale_of_a_reranker_does_not_matter(scores: dict[int, float], scale: float, shift: int) -> None:
    candidates = candidates_on(SHELF, range(20))
    other = {place: score * scale + shift for place, score in scores.items()}
    assert order(merged(candidates, other)) == order(merged(candidates, scores))


def test_a_scored_prefix_stands_before_the_rest_best_score_first() -> None:
    assert order(merged(candidates_on(SHELF, range(6)), {0: 0.1, 1: 0.9, 2: 0.5})) == [1, 2, 0, 3, 4, 5]


def test_scores_differ_in_single_precision_over_a_thousand_places() -> None:
    ranking = as_fused(candidates_on(shelf_of([1] * 1000), range(1000)))
    assert len({_single(ranked.score) for ranked in ranking.items}) == 1000


def _single(value: float) -> float:
    cell = memoryview(bytearray(4)).cast("f")
    cell[0] = value
    return float(cell[0])


@pytest.mark.parametrize("noise", [0.1, 0.4, 0.7, 0.9])
@pytest.mark.parametrize("options", [AnytimeOptions(window=8, run_tokens=60), AnytimeOptions(window=16, run_tokens=1)])
def test_more_scored_pairs_do_not_cost_quality(noise: float, options: AnytimeOptions) -> None:
    """Simulated judgements, graded 0 to 2, a fused order that knows them poorly, a reranker that knows them better.

    The mean nDCG@10 after each further run may lie below the best mean before it by one standard error at most.
    """
    draw = random.Random(20261)
    curves: list[list[float]] = []
    for _ in range(100):
        grades = draw.choices([0, 1, 2], [0.86, 0.1, 0.04], k=40)
        knows = {key: grade + draw.gauss(0, 1.0) for key, grade in enumerate(grades)}
        fused = sorted(knows, key=lambda key: -knows[key])
        scores = {key: grade + draw.gauss(0, noise) for key, grade in enumerate(grades)}
        lengths = [draw.randint(2, 40) for _ in grades]
        curves.append(_curve(grades, fused, scores, lengths, options))
    best = 0.0
    for step in range(min(len(curve) for curve in curves)):
        values = [curve[step] for curve in curves]
        assert fmean(values) >= best - stdev(values) / sqrt(len(values)), f"after {step} runs"
        best = max(best, fmean(values))
    assert fmean(curve[-1] for curve in curves) > fmean(curve[0] for curve in curves) + 0.1


def _curve(
    grades: list[int], fused: list[int], scores: dict[int, float], lengths: list[int], options: AnytimeOptions
) -> list[float]:
    """nDCG@10 when scoring stops after 0, 1, 2, … runs."""
    shelf, scorer = shelf_of(lengths), FakeScorer(scores)
    candidates = candidates_on(shelf, fused)
    passages = PassageTokens(scorer.tokenizer, scorer.token_ids)
    plan = Plan(scorer, passages, options, Asked("why", shelf, dict(enumerate(fused)), inf))
    seen: list[dict[int, float]] = [{}]
    while (run := plan.next(lambda: 0.0, 1)) is not None:
        seen.append(seen[-1] | {place: scores[fused[place]] for place in run})
        plan.done(run)
    assert len(seen[-1]) == len(fused)
    return [_ndcg([grades[key] for key in order(merged(candidates, scored))]) for scored in seen]


def _ndcg(grades: list[int]) -> float:
    def gain(listed: list[int]) -> float:
        return sum(grade / log2(place + 2) for place, grade in enumerate(listed[:10]))

    ideal = gain(sorted(grades, reverse=True))
    return gain(grades) / ideal if ideal else 0.0
