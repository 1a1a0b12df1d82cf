"""What is made of the request's own outcome and of an exact look: the verdict, and who is to blame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from context.packing import BudgetPacker
from pipeline.answering import Found
from pipeline.explaining import (
    DocumentState,
    Evidence,
    Explanation,
    LegPlace,
    Seen,
    Standing,
    Verdict,
    explanation,
    to_blame,
)
from pipeline.filters import Comparison, Compound, Op
from pipeline.passages import Groups, Leg
from pipeline.profile import Pack, Search
from tests.fakes_shelf import FakeShelf, asked, make_passage, ranked_on

PUBLISHED = Standing("doc", "doc.md", DocumentState.PUBLISHED, 1)
YEAR, TAG = Comparison("year", Op.GTE, 2024), Comparison("tag", Op.IN, ("hr", "it"))


def found(texts: list[str], pack: Pack, *, of: dict[int, int] | None = None) -> Found:
    """The passages d0:0, d1:0, … ranked in this order."""
    shelf = FakeShelf([make_passage(f"d{number}", 0, text) for number, text in enumerate(texts)])
    candidates, ranking, groups, sizes = ranked_on(shelf, list(range(len(texts))))
    query = asked(pack=pack)
    context = BudgetPacker().pack(query, candidates, ranking, Groups(of) if of else groups, sizes)
    return Found(candidates, ranking, context)


def explained(outcome: Found, key: int, pack: Pack, seen: Seen | None = None, depth: int = 100) -> Explanation:
    (passage,) = outcome.candidates.shelf.passages([key])
    seen = seen or Seen(key, passage, (LegPlace(Leg.LEXICAL, key + 1, 1.0, 9),))
    query = asked(pack=pack)
    query = replace(query, profile=replace(query.profile, search=replace(Search(), candidates=depth)))
    return explanation(query, PUBLISHED, outcome, Evidence((seen,)))


def test_a_source_says_its_number_and_how_it_got_there() -> None:
    told = explained(found(["one", "two"], Pack()), 1, Pack())
    (passage,) = told.passages
    assert (told.verdict, told.said) == (Verdict.PACKED, "It is source 2.")
    assert (passage.fused, passage.final, passage.number) == (2, 2, 2)
    assert passage.hits == {Leg.LEXICAL: 2}


def test_a_duplicate_names_what_it_repeats() -> None:
    told = explained(found(["same", "same"], Pack(), of={0: 0, 1: 0}), 1, Pack())
    assert told.verdict is Verdict.DUPLICATE
    assert told.passages[0].instead == "d0:0"
    assert "d0:0" in told.said


def test_one_that_does_not_fit_says_the_budget_and_one_that_comes_late_the_number() -> None:
    pack = Pack(token_budget=40)
    assert "50 tokens" in explained(found(["one", "word " * 50], pack), 1, pack).said
    pack = Pack(top_k=1)
    told = explained(found(["one", "two"], pack), 1, pack)
    assert (told.verdict, told.said) == (
        Verdict.TOP_K,
        "1 passages were asked for, and better ones took their places.",
    )


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ((LegPlace(Leg.LEXICAL, 120, 1.0, 300), LegPlace(Leg.DENSE, 140, 0.1, 500)), "rank 120 of 300, dense"),
        ((LegPlace(Leg.LEXICAL, None, None, 3), LegPlace(Leg.DENSE, 140, 0.1, 500)), "no lexical match"),
        ((LegPlace(Leg.LEXICAL, 90, 1.0, 300), LegPlace(Leg.DENSE, 140, 0.1, 500)), "not among the best 100"),
        ((LegPlace(Leg.DENSE, 40, 0.1, 500),), "not exact"),
    ],
)  # fmt: skip
def test_one_that_no_leg_brought_says_where_it_stands(places: tuple[LegPlace, ...], says: str) -> None:
    outcome = found(["one"], Pack())
    told = explained(outcome, 0, Pack(), Seen(99, make_passage("doc", 0, "far"), places))
    assert told.verdict is Verdict.CANDIDATES
    assert says in told.said


def test_a_closed_door_comes_before_a_filter_and_a_filter_before_ranks() -> None:
    outcome, passage = found(["one"], Pack()), make_passage("doc", 0, "far")
    place = (LegPlace(Leg.LEXICAL, 120, 1.0, 300),)
    told = explained(outcome, 0, Pack(), Seen(99, passage, place, closed=True, excluded=(YEAR,)))
    assert told.verdict is Verdict.ACCESS
    told = explained(outcome, 0, Pack(), Seen(99, passage, place, excluded=(YEAR, TAG)))
    assert told.verdict is Verdict.FILTER
    assert told.said == "The filter leaves it out: year gte 2024, tag in ('hr', 'it')."


@pytest.mark.parametrize(
    ("standing", "says"),
    [
        (Standing("", "x", DocumentState.UNKNOWN), "There is no such document."),
        (Standing("d", "x", DocumentState.UNDER_WAY, reason="parsed"), "under way and not searchable yet (parsed)"),
        (Standing("d", "x", DocumentState.FAILED, reason="it is empty."), "failed: it is empty."),
        (Standing("d", "x", DocumentState.PUBLISHED, 0), "has no passage"),
        (Standing("d", "x", DocumentState.PUBLISHED, 3), "not part of fake@1"),
    ],
)
def test_what_is_not_searched_says_why(standing: Standing, says: str) -> None:
    told = explanation(asked(), standing, found(["one"], Pack()), Evidence(()))
    assert (told.verdict, told.passages) == (Verdict.NOT_INDEXED, ())
    assert says in told.said


def test_the_passage_that_came_furthest_speaks_for_the_document() -> None:
    pack = Pack(top_k=2)
    outcome = found(["one", "two", "three"], pack)
    passages = outcome.candidates.shelf.passages([0, 1, 2])
    seen = [Seen(key, passages[key], (LegPlace(Leg.LEXICAL, key + 1, 1.0, 9),)) for key in (2, 1)]
    beyond = Seen(99, make_passage("d", 9, "far"), (LegPlace(Leg.LEXICAL, 500, 0.1, 900),))
    told = explanation(asked(pack=pack), PUBLISHED, outcome, Evidence((beyond, *seen)))
    assert [each.seen.key for each in told.passages] == [1, 2, 99]
    assert told.said == "Of its 3 passages the best: It is source 2."


@pytest.mark.parametrize(
    ("asked_for", "blamed"),
    [
        (YEAR, ()),
        (TAG, (TAG,)),
        (Compound("and", (YEAR, TAG)), (TAG,)),
        (Compound("or", (YEAR, TAG)), ()),
        (Compound("or", (TAG, Compound("and", (TAG, YEAR)))), (TAG, TAG)),
        (Compound("and", (YEAR, Compound("or", (TAG, YEAR)))), ()),
    ],
)
def test_only_comparisons_that_decide_are_blamed(
    asked_for: Comparison | Compound, blamed: tuple[Comparison, ...]
) -> None:
    assert to_blame(asked_for, lambda comparison: comparison is YEAR) == blamed
