"""Two runs beside each other: a planted regression is found, chance is not, and two causes are not told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.load.comparing import ComparingOptions, Comparison, NotComparable, compare
from benchmarks.load.recording import Recording, Sample
from tests.recordings import PLAN, recorded

PAIRS_OF_SEEDS = range(1, 7)


@pytest.fixture(scope="module")
def nulls() -> list[Comparison]:
    """Comparisons of runs that differ by chance alone."""
    return [compare(recorded(noise=2 * seed), recorded(noise=2 * seed + 1)) for seed in PAIRS_OF_SEEDS]


def ratio(comparison: Comparison, name: str) -> float:
    return next(each.ratio for each in comparison.ratios if each.name == name)


def test_two_runs_of_the_same_are_no_regression(nulls: list[Comparison]) -> None:
    for null in nulls:
        assert not null.regressed
        assert null.changed == {}
        assert null.paired_by == "request"
        assert null.alike == 1.0


def test_intervals_hold_what_is_true_about_as_often_as_they_say(nulls: list[Comparison]) -> None:
    medians = [each for null in nulls for each in null.ratios if each.name == "latency, paired median"]
    assert sum(each.low <= 1 <= each.high for each in medians) >= len(medians) - 1


@pytest.mark.parametrize("slower", [1.15, 2.0])
def test_a_planted_regression_is_found(slower: float) -> None:
    found = compare(recorded(noise=1), recorded(noise=2, slower=slower))
    assert found.regressed
    assert ratio(found, "latency, paired median") == pytest.approx(slower, rel=0.03)


def test_a_tail_that_grew_is_found_where_the_median_stayed() -> None:
    def stall(sample: Sample) -> Sample:
        return replace(sample, latency=sample.latency + 0.5) if sample.number % 15 == 0 else sample

    found = compare(recorded(noise=1), recorded(noise=2, change=stall))
    assert [each.name for each in found.ratios if each.worse] == ["latency, p95", "latency, p99", "answered in time"]


def test_quicker_is_no_regression() -> None:
    found = compare(recorded(noise=1), recorded(noise=2, slower=0.5))
    assert not found.regressed
    assert ratio(found, "latency, paired median") == pytest.approx(0.5, rel=0.03)


def test_what_is_refused_cannot_look_quick() -> None:
    def refuse(sample: Sample) -> Sample:
        return replace(sample, status=503, problem="overloaded") if sample.number % 3 == 0 else sample

    found = compare(recorded(noise=1), recorded(noise=2, change=refuse))
    assert [each.name for each in found.ratios if each.worse] == ["answered in time"]


def test_a_change_within_the_margin_is_none() -> None:
    old, new = recorded(noise=1), recorded(noise=2, slower=1.15)
    assert not compare(old, new, ComparingOptions(margin=0.25)).regressed


def test_one_changed_factor_is_named() -> None:
    new = replace(recorded(noise=2), server={"version": "2"})
    assert compare(recorded(noise=1), new).changed == {"server.version": ("1", "2")}


def test_two_changed_factors_are_refused_unless_told() -> None:
    old = recorded(noise=1)
    new = replace(recorded(replace(PLAN, told={"threads": "4"}), noise=2), server={"version": "2"})
    with pytest.raises(NotComparable, match=r"2 factors changed.*server\.version.*told\.threads.*--several-factors"):
        compare(old, new)
    assert len(compare(old, new, ComparingOptions(several_factors=True)).changed) == 2


def test_another_seed_is_paired_by_query() -> None:
    found = compare(recorded(noise=1), recorded(replace(PLAN, seed=6), noise=2))
    assert found.paired_by == "query"
    assert found.pairs <= 40
    assert not found.regressed


def test_other_queries_are_refused_even_when_told() -> None:
    new = recorded(replace(PLAN, queries=PLAN.queries[1:]))
    with pytest.raises(NotComparable, match="Ask the same queries"):
        compare(recorded(), new, ComparingOptions(several_factors=True))


def test_with_too_few_pairs_a_tail_is_shown_and_not_judged() -> None:
    short = replace(PLAN, seconds=10)
    found = compare(recorded(short, noise=1), recorded(short, noise=2, slower=3))
    judged = {each.name: each.judged for each in found.ratios}
    assert judged["latency, paired median"]
    assert not judged["latency, p99"]
    assert found.regressed


def test_runs_without_a_common_answer_say_so() -> None:
    with pytest.raises(NotComparable, match="No request was answered in both runs"):
        compare(recorded(), Recording(PLAN, (), {"version": "1"}, {"cores": 2}))


def test_answers_that_rest_on_other_passages_are_told() -> None:
    new = recorded(noise=2, change=lambda it: replace(it, found="other") if it.number % 2 else it)
    alike = compare(recorded(noise=1), new).alike
    assert alike == pytest.approx(0.5, abs=0.01)
