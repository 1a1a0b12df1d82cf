"""Both legs under filters and labels: nothing from outside, as many as there are, ranked as a naive filter ranks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import InvalidInput, OutOfTime
from pipeline.filters import Comparison, Compound, Filter, Op
from pipeline.passages import Candidates, Leg, Passage, Query
from pipeline.ports import GenerationRef
from retrieve.cached import CachedRetriever, retrieval_key
from retrieve.dense import DenseOptions
from retrieve.segment_writing import GenerationOptions
from tests.fakes_encoder import FakeEncoder
from tests.fakes_shelf import make_passage
from tests.generations import DIMENSIONS, published
from tests.oracles.test_dense import clustered
from tests.searching import Searching, query, searching

ROWS, K, SEED = 6_000, 50, 7
WORDS = "tram ferry depot island museum kiosk ticket night soup bread lamp rail".split()
ASKED = ("tram depot", "night ferry island", "soup and bread", "museum ticket kiosk", "lamp rail night tram")
KINDS = {
    "flat": DenseOptions(),
    "codes": DenseOptions(exact_up_to=0),
    "lists": DenseOptions(exact_up_to=0, scanned_up_to=0),
}
LEFT = (0.9, 0.5, 0.2, 0.1, 0.01, 0.001)
DRAW = np.random.default_rng(SEED)
PASSAGES = [
    make_passage(
        f"d{number}",
        0,
        " ".join(WORDS[place] for place in DRAW.integers(0, len(WORDS), 8)),
        language="en",
        metadata={"part": int(part), "even": bool(part % 2 == 0)},
        access=("hr",) if number % 10 == 0 else (),
    )
    for number, part in enumerate(DRAW.permutation(ROWS))
]
VECTORS = clustered(ROWS, DIMENSIONS)


@pytest.fixture(scope="module", params=list(KINDS))
def ref(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GenerationRef:
    """All of it, in an index of each kind."""
    options = GenerationOptions(dense=KINDS[request.param])
    return published(tmp_path_factory.mktemp("filtered"), PASSAGES, VECTORS, options=options)


@pytest_asyncio.fixture
async def served(ref: GenerationRef) -> AsyncIterator[Searching]:
    with searching(ref) as opened:
        yield opened


def under(share: float) -> Filter:
    """A filter that leaves this share of all passages."""
    return Comparison("part", Op.LT, round(share * ROWS))


def clock() -> Clock:
    return Clock(Budget(60.0))


async def found(served: Searching, asked: Query) -> Candidates:
    return await served.retriever.retrieve(asked, clock())


def narrowed(text: str, asked: Filter | None, *labels: str, candidates: int = K, **search: object) -> Query:
    plain = query(text, candidates=candidates, **search)
    return replace(plain, filter=asked, caller=replace(plain.caller, labels=frozenset(labels)))


def rows(candidates: Candidates, leg: Leg) -> list[str]:
    """The documents that a leg found, in its order."""
    placed = [(hit.rank, item.key) for item in candidates.items for hit in item.hits if hit.leg is leg]
    return [passage.document_id for passage in candidates.shelf.passages([key for _, key in sorted(placed)])]


@pytest.mark.parametrize("share", LEFT)
async def test_each_leg_finds_what_a_naive_filter_of_everything_would_leave(served: Searching, share: float) -> None:
    inside = {passage.document_id for passage in PASSAGES if passage.metadata["part"] < round(share * ROWS)}
    recalls: list[float] = []
    for text in ASKED:
        everything = await found(served, narrowed(text, None, "hr", candidates=ROWS, legs=(Leg.LEXICAL,)))
        lexical = [document for document in rows(everything, Leg.LEXICAL) if document in inside][:K]
        scores = VECTORS @ FakeEncoder().vector(text)
        order = np.argsort(-scores, kind="stable")
        dense = [document for row in order if (document := PASSAGES[row].document_id) in inside][:K]

        got = await found(served, narrowed(text, under(share), "hr", legs=(Leg.LEXICAL,)))
        assert rows(got, Leg.LEXICAL) == lexical
        got = await found(served, narrowed(text, under(share), "hr", legs=(Leg.DENSE,)))
        nearest = rows(got, Leg.DENSE)
        assert len(nearest) == len(dense)
        assert set(nearest) <= inside
        fused = shown(await found(served, narrowed(text, under(share), "hr")))
        assert {passage.document_id for passage in fused} <= inside
        assert len(fused) == min(K, len(inside))
        recalls.append(len(set(nearest) & set(dense)) / max(len(dense), 1))
    assert np.mean(recalls) >= 0.95


@pytest.mark.parametrize("share", LEFT)
async def test_on_an_exact_index_the_order_is_that_of_a_naive_filter(tmp_path: Path, share: float) -> None:
    some = PASSAGES[:1000]
    with searching(published(tmp_path, some, VECTORS[:1000])) as served:
        limit = round(share * ROWS)
        for text in ASKED:
            order = np.argsort(-(VECTORS[:1000] @ FakeEncoder().vector(text)), kind="stable")
            wanted = [some[row].document_id for row in order if some[row].metadata["part"] < limit][:K]
            got = await found(served, narrowed(text, under(share), "hr", legs=(Leg.DENSE,)))
            assert rows(got, Leg.DENSE) == wanted


async def test_as_many_as_were_asked_for_are_found_if_there_are_so_many(served: Searching) -> None:
    for matching in (0, 1, 7, K, K + 1):
        asked = Comparison("part", Op.LT, matching)
        got = await found(served, narrowed("tram depot", asked, "hr"))
        assert len(got.items) == min(K, matching)
        assert all(passage.metadata["part"] < matching for passage in shown(got))


def shown(candidates: Candidates) -> tuple[Passage, ...]:
    return candidates.shelf.passages([item.key for item in candidates.items])


async def test_a_caller_finds_what_carries_no_label_and_what_carries_one_of_its_own(served: Searching) -> None:
    for labels, sees in (((), False), (("it",), False), (("it", "hr"), True)):
        for legs in ((Leg.LEXICAL,), (Leg.DENSE,), (Leg.LEXICAL, Leg.DENSE)):
            got = await found(served, narrowed("tram depot", None, *labels, candidates=ROWS, legs=legs))
            assert any(passage.access for passage in shown(got)) is sees
        only = Comparison("document_id", Op.IN, ("d0", "d1", "d10"))
        got = await found(served, narrowed("tram depot", only, *labels))
        assert {passage.document_id for passage in shown(got)} == ({"d0", "d1", "d10"} if sees else {"d1"})


async def test_no_filter_reaches_behind_a_label(served: Searching) -> None:
    """Whatever it says: it can only take away."""
    anything = Compound("or", (Comparison("part", Op.GTE, 0), Comparison("document_id", Op.EQ, "d0")))
    for asked in (anything, Comparison("document_id", Op.EQ, "d0"), Comparison("part", Op.NIN, ())):
        got = await found(served, narrowed("tram depot", asked, candidates=ROWS))
        assert "d0" not in {passage.document_id for passage in shown(got)}


async def test_a_filter_that_means_nothing_is_refused_before_anything_is_searched(served: Searching) -> None:
    served.encoder.batches.clear()
    with pytest.raises(InvalidInput) as refused:
        await found(served, narrowed("tram depot", Comparison("parts", Op.EQ, 1)))
    assert refused.value.field == "filters.key"
    assert served.encoder.batches == []


async def test_a_new_filter_has_a_lap_of_its_own_and_a_known_one_has_none(served: Searching) -> None:
    asked = Comparison("part", Op.EQ, 11)
    for laps in (1, 0):
        watch = clock()
        await served.retriever.retrieve(narrowed("tram depot", asked), watch)
        assert [timing.stage for timing in watch.timings].count(Stage.FILTER) == laps
    assert served.retriever.filters.hits >= 1


async def test_a_filter_that_is_late_makes_the_whole_search_late(served: Searching) -> None:
    never = Clock(Budget(60.0, {Stage.FILTER: 0.0}))
    with pytest.raises(OutOfTime, match="filter"):
        await served.retriever.retrieve(narrowed("tram depot", Comparison("part", Op.EQ, 12)), never)


async def test_a_remembered_retrieval_is_given_only_for_the_same_filter_and_labels(tmp_path: Path) -> None:
    with searching(published(tmp_path, PASSAGES[:200], VECTORS[:200])) as served:
        cached = CachedRetriever.open(served.retriever, served.generations, retrieval_key("this test"))
        served.retriever = cached  # type: ignore[assignment]  # it stands in the other's place
        low, high = Comparison("part", Op.LT, 3000), Comparison("part", Op.GTE, 3000)
        both = (
            Compound("and", (low, Comparison("even", Op.EQ, True))),
            Compound("and", (Comparison("even", Op.EQ, True), low)),
        )
        seen = [
            [item.key for item in (await found(served, narrowed("tram depot", asked, *labels, candidates=200))).items]
            for asked in (None, low, high, *both)
            for labels in ((), ("hr",))
        ]
        assert cached.counts.hits == 2, "the same said in another order, once for each caller"
        assert seen[-4:-2] == seen[-2:]
        assert len({tuple(sorted(keys)) for keys in seen[:-2]}) == len(seen) - 2
