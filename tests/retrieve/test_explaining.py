"""An exact look at one document agrees with every search, however deep that looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pipeline.clock import Budget, Clock
from pipeline.errors import InvalidInput, OutOfTime
from pipeline.explaining import Evidence, Seen
from pipeline.filters import Comparison, Compound, Op
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Caller, Candidates, Leg, Passage, Query
from pipeline.ports import GenerationRef
from retrieve.explaining import ExactExplainer
from tests.fakes_shelf import FakeShelf, make_passage
from tests.generations import changed, published
from tests.searching import DENSE_ONLY, LEXICAL_ONLY, Searching, query, searching

SEED = 20261201
WORDS = "tram depot ticket refund harbour bridge ferry station lost purse counter season winter summer guard".split()
ASKED = "refund of a season ticket at the harbour"


def passages(documents: int, *, seed: int = SEED, first: int = 0) -> list[Passage]:
    """Three passages a document; every fifth document is closed to all but `hr`."""
    drawn = Random(seed)
    return [
        make_passage(
            f"doc{number:03}",
            ordinal,
            " ".join(drawn.choices(WORDS, k=drawn.randint(3, 12))),
            language="en",
            metadata={"year": 2020 + number % 5, "team": "ab"[number % 2]},
            access=("hr",) if number % 5 == 4 else (),
        )
        for number in range(first, first + documents)
        for ordinal in range(3)
    ]


@pytest.fixture(scope="module")
def ref(tmp_path_factory: pytest.TempPathFactory) -> GenerationRef:
    """A base, of which some documents are gone and some stand replaced in a delta."""
    before = published(tmp_path_factory.mktemp("generations"), passages(60))
    return changed(before, passages(8, seed=7, first=10), gone=["doc003", "doc004"])


@contextmanager
def explaining(ref: GenerationRef) -> Iterator[tuple[Searching, ExactExplainer]]:
    with searching(ref) as here, Lane(LaneOptions("explain")) as lane:
        yield here, ExactExplainer(here.retriever._encoder, lane)


async def looked_at(here: Searching, explainer: ExactExplainer, asked: Query, document: str) -> Evidence:
    candidates = await here.retriever.retrieve(asked, Clock(Budget()))
    return await explainer.explain(asked, candidates, document, Clock(Budget()))


async def ranks(here: Searching, asked: Query) -> dict[str, tuple[int, float]]:
    """By passage id, where one leg places everything that it finds."""
    found = await here.retriever.retrieve(asked, Clock(Budget()))
    shown = found.shelf.passages([each.key for each in found.items])
    return {
        passage.id: (each.hits[0].rank, each.hits[0].score) for passage, each in zip(shown, found.items, strict=True)
    }


def place(seen: Seen, leg: Leg) -> tuple[int | None, float | None]:
    (found,) = (each for each in seen.places if each.leg is leg)
    return found.rank, found.score


@pytest.mark.parametrize("leg", [Leg.LEXICAL, Leg.DENSE])
async def test_the_exact_rank_is_the_place_in_a_search_that_looks_at_everything(ref: GenerationRef, leg: Leg) -> None:
    asked = query(ASKED)
    with explaining(ref) as (here, explainer):
        everything = await ranks(here, query(ASKED, legs=(leg,), candidates=1000))
        looked = 0
        for number in (0, 1, 10, 17, 30, 58):
            for seen in (await looked_at(here, explainer, asked, f"doc{number:03}")).passages:
                rank, score = everything.get(seen.passage.id, (None, None))
                assert place(seen, leg) == (rank, score if score is None else pytest.approx(score, rel=1e-5))
                looked += 1
        assert looked == 18


async def test_what_terms_add_is_the_score(ref: GenerationRef) -> None:
    with explaining(ref) as (here, explainer):
        for document in ("doc001", "doc011"):
            for seen in (await looked_at(here, explainer, query(ASKED), document)).passages:
                found = seen.places[0]
                assert sum(term.score for term in found.terms) == pytest.approx(found.score or 0.0, rel=1e-5)
                assert [term.score for term in found.terms] == sorted((t.score for t in found.terms), reverse=True)
                words = seen.passage.text.split()
                assert all(any(word.startswith(term.term[:4]) for word in words) for term in found.terms)
                assert all(0 < term.passages <= found.of for term in found.terms)


async def test_only_the_living_version_of_a_document_is_seen(ref: GenerationRef) -> None:
    new = {passage.text for passage in passages(8, seed=7, first=10)}
    with explaining(ref) as (here, explainer):
        replaced = await looked_at(here, explainer, query(ASKED), "doc012")
        assert len(replaced.passages) == 3
        assert {seen.passage.text for seen in replaced.passages} <= new
        for gone in ("doc003", "doc999"):
            assert await looked_at(here, explainer, query(ASKED), gone) == Evidence(())


async def test_ranks_are_taken_among_what_the_filter_leaves(ref: GenerationRef) -> None:
    narrow = Comparison("year", Op.GTE, 2023)
    with explaining(ref) as (here, explainer):
        asked = replace(query(ASKED), filter=narrow)
        for leg in Leg:
            everything = await ranks(here, replace(query(ASKED, legs=(leg,), candidates=1000), filter=narrow))
            evidence = await looked_at(here, explainer, asked, "doc013")
            for seen in evidence.passages:
                assert not seen.excluded
                assert place(seen, leg)[0] == everything.get(seen.passage.id, (None, None))[0]
                assert next(each.of for each in seen.places if each.leg is leg) == len(everything)


async def test_what_a_filter_leaves_out_says_by_which_comparison_and_where_it_would_stand(ref: GenerationRef) -> None:
    year, team = Comparison("year", Op.EQ, 2024), Comparison("team", Op.EQ, "b")
    with explaining(ref) as (here, explainer):
        asked = replace(query(ASKED), filter=Compound("and", (year, team)))
        everything = await ranks(here, replace(query(ASKED, legs=DENSE_ONLY, candidates=1000), filter=asked.filter))
        for seen in (await looked_at(here, explainer, asked, "doc001")).passages:  # of 2021, of team b
            assert seen.excluded == (year,)
            assert not seen.closed
            rank, score = place(seen, Leg.DENSE)
            assert score is not None
            better = sum(other > score for _, other in everything.values())
            assert rank == better + 1


async def test_what_is_closed_to_the_caller_says_so_and_is_not_counted(ref: GenerationRef) -> None:
    asked = query(ASKED)
    with explaining(ref) as (here, explainer):
        evidence = await looked_at(here, explainer, asked, "doc009")
        assert all(seen.closed for seen in evidence.passages)
        opened = replace(asked, caller=Caller(labels=frozenset({"hr"})))
        evidence = await looked_at(here, explainer, opened, "doc009")
        assert not any(seen.closed for seen in evidence.passages)
        everything = await ranks(here, query(ASKED, legs=DENSE_ONLY, candidates=1000))
        assert {key for key in everything if key.startswith("doc009")} == set()


async def test_a_leg_that_was_not_asked_for_or_finds_nothing_has_no_place(ref: GenerationRef) -> None:
    with explaining(ref) as (here, explainer):
        for seen in (await looked_at(here, explainer, query(ASKED, legs=LEXICAL_ONLY), "doc001")).passages:
            assert [each.leg for each in seen.places] == [Leg.LEXICAL]
        evidence = await looked_at(here, explainer, query("of the"), "doc001")
        assert [degraded.reason for degraded in evidence.degraded] == ["no_terms"]
        for seen in evidence.passages:
            assert place(seen, Leg.LEXICAL) == (None, None)
            assert place(seen, Leg.DENSE)[0] is not None


async def test_several_collections_are_ranked_as_one(ref: GenerationRef, tmp_path: Path) -> None:
    other = published(tmp_path, [make_passage("law", 0, "refund refund ticket", language="en")], collection="laws")
    asked = query(ASKED, "handbook", "laws")
    with searching(ref, other) as here, Lane(LaneOptions("explain")) as lane:
        explainer = ExactExplainer(here.retriever._encoder, lane)
        everything = await ranks(here, query(ASKED, "handbook", "laws", legs=LEXICAL_ONLY, candidates=1000))
        (seen,) = (await looked_at(here, explainer, asked, "law")).passages
        assert place(seen, Leg.LEXICAL)[0] == everything["law:0"][0]


async def test_it_keeps_its_own_deadline_and_knows_only_this_process_s_shelves(ref: GenerationRef) -> None:
    asked = query(ASKED)
    with explaining(ref) as (here, explainer):
        candidates = await here.retriever.retrieve(asked, Clock(Budget()))
        with pytest.raises(OutOfTime):
            await explainer.explain(asked, candidates, "doc001", Clock(Budget(0.0)))
        with pytest.raises(InvalidInput):
            await explainer.explain(asked, Candidates((), FakeShelf([])), "doc001", Clock(Budget()))
