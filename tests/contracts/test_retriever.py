"""What every retriever promises: an answer as long as one leg has one, and a word about what was given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import InvalidInput, NotFound, OutOfTime, Overloaded
from pipeline.lane import Lane
from pipeline.passages import Aside, Candidates, Leg
from pipeline.second_level import GuardedLevel
from retrieve.cached import CachedRetriever, retrieval_key
from retrieve.hybrid import HybridOptions
from retrieve.shared import SharedRetriever
from tests.fakes_cache import FakeLevel
from tests.fakes_encoder import FakeEncoder
from tests.fakes_shelf import make_passage
from tests.generations import published
from tests.searching import DENSE_ONLY, LEXICAL_ONLY, Searching, query, searching, until

TEXTS = (
    "the night tram leaves the depot at six",
    "ferries cross to the island every hour",
    "the museum is closed on mondays",
    "tickets are sold at the kiosk",
    "soup and bread are free on sundays",
)
KEY = retrieval_key("this test")
LAWS = ("trams give way to ambulances", "no soup on trams")


def vectors(texts: tuple[str, ...]) -> np.ndarray:
    return np.stack([FakeEncoder().vector(text) for text in texts])


@pytest.fixture(params=["searched", "cached", "shared", "without a second level that answers"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Searching]:
    handbook = [make_passage(f"h{n}", 0, text, language="en") for n, text in enumerate(TEXTS)]
    laws = [make_passage(f"l{n}", 0, text, language="en") for n, text in enumerate(LAWS)]
    with searching(
        published(tmp_path, handbook, vectors(TEXTS)),
        published(tmp_path, laws, vectors(LAWS), collection="laws", number=3),
    ) as opened:
        if request.param != "searched":
            level = FakeLevel()
            level.error = ConnectionRefusedError()
            second = GuardedLevel(level) if request.param.startswith("without") else None
            opened.retriever = cached = CachedRetriever.open(opened.retriever, opened.generations, KEY, second=second)
        if request.param == "shared":
            opened.retriever = SharedRetriever(cached, opened.generations, KEY, cached.counts)
        yield opened


def clock(total: float = 60.0, **shares: float) -> Clock:
    return Clock(Budget(total, {Stage(stage): seconds for stage, seconds in shares.items()}))


def documents(candidates: Candidates) -> list[str]:
    return [passage.document_id for passage in candidates.shelf.passages([item.key for item in candidates.items])]


def given_up(candidates: Candidates) -> list[tuple[Stage, str]]:
    return [(degraded.stage, degraded.reason) for degraded in candidates.degraded]


async def test_what_is_asked_for_comes_first_and_each_leg_says_where_it_placed_it(served: Searching) -> None:
    found = await served.retriever.retrieve(query("the night tram leaves the depot at six"), clock())
    assert documents(found)[0] == "h0"
    assert [(hit.leg, hit.rank) for hit in found.items[0].hits] == [(Leg.LEXICAL, 1), (Leg.DENSE, 1)]
    assert found.degraded == ()
    assert found.shelf.generation == "handbook@1"


async def test_both_legs_run_at_the_same_time(served: Searching) -> None:
    await served.retriever.retrieve(query("warm up"), clock())
    served.encoder.gate.clear()
    timed = clock()
    asked = asyncio.create_task(served.retriever.retrieve(query("night tram"), timed))
    await until(lambda: Stage.LEXICAL in {timing.stage for timing in timed.timings})
    served.encoder.gate.set()  # one leg after the other, the lexical one would still wait for this
    await asked
    laps = {timing.stage: timing for timing in timed.timings}
    lexical, encode = laps[Stage.LEXICAL], laps[Stage.ENCODE]
    assert lexical.started < encode.started + encode.waited + encode.worked
    assert encode.started < lexical.started + lexical.waited + lexical.worked


async def test_every_stage_has_its_lap(served: Searching) -> None:
    timed = clock()
    await served.retriever.retrieve(query("tram"), timed)
    assert {timing.stage for timing in timed.timings} - {Stage.CACHE} == {
        Stage.ADMIT,  # the first time only: the collection is opened
        Stage.LEXICAL,
        Stage.ENCODE,
        Stage.DENSE,
        Stage.FUSE,
    }


@pytest.mark.parametrize(("legs", "only"), [(LEXICAL_ONLY, Leg.LEXICAL), (DENSE_ONLY, Leg.DENSE)])
async def test_one_leg_is_searched_where_one_is_asked_for(served: Searching, legs: tuple[Leg, ...], only: Leg) -> None:
    found = await served.retriever.retrieve(query(TEXTS[0], legs=legs), clock())
    assert {hit.leg for item in found.items for hit in item.hits} == {only}
    assert documents(found)[0] == "h0"
    assert found.degraded == ()


async def test_no_leg_is_bad_input(served: Searching) -> None:
    with pytest.raises(InvalidInput):
        await served.retriever.retrieve(query("tram", legs=()), clock())


async def test_a_late_encoder_costs_the_dense_leg_and_not_the_answer(served: Searching) -> None:
    served.encoder.gate.clear()
    found = await served.retriever.retrieve(query("night tram"), clock(encode=0.02))
    assert documents(found) == ["h0"]
    assert given_up(found) == [(Stage.ENCODE, "out_of_time")]


async def test_a_failing_encoder_costs_the_dense_leg_and_not_the_answer(served: Searching) -> None:
    served.encoder.error = RuntimeError("the model failed")
    found = await served.retriever.retrieve(query("night tram"), clock())
    assert documents(found) == ["h0"]
    assert given_up(found) == [(Stage.ENCODE, "failed")]
    assert "the model failed" in found.degraded[0].detail


async def test_a_late_lexical_leg_leaves_the_dense_one(served: Searching) -> None:
    await served.retriever.retrieve(query("warm up"), clock())
    async with occupied(served.lexical):
        found = await served.retriever.retrieve(query(TEXTS[1]), clock(lexical=0.02))
    assert documents(found)[0] == "h1"
    assert given_up(found) == [(Stage.LEXICAL, "out_of_time")]


async def test_a_full_line_is_given_up_at_once(tmp_path: Path) -> None:
    handbook = [make_passage(f"h{n}", 0, text, language="en") for n, text in enumerate(TEXTS)]
    with searching(published(tmp_path, handbook, vectors(TEXTS)), line=1) as served:
        await served.retriever.retrieve(query("warm up"), clock())
        async with occupied(served.lexical, callers=2):
            found = await served.retriever.retrieve(query(TEXTS[1]), clock())
            assert given_up(found) == [(Stage.LEXICAL, "overloaded")]
            async with occupied(served.dense, callers=2):
                with pytest.raises(Overloaded):
                    await served.retriever.retrieve(query(TEXTS[1]), clock())


async def test_when_no_leg_answers_in_time_it_is_out_of_time(served: Searching) -> None:
    await served.retriever.retrieve(query("warm up"), clock())
    served.encoder.gate.clear()
    async with occupied(served.lexical):
        with pytest.raises(OutOfTime):
            await served.retriever.retrieve(query("tram"), clock(0.03))


async def test_with_nothing_left_it_is_out_of_time_at_once(served: Searching) -> None:
    with pytest.raises(OutOfTime):
        await served.retriever.retrieve(query("tram"), clock(0.0))
    assert served.encoder.batches == []


@pytest.mark.parametrize("text", ["?!", "the of and"])
async def test_a_query_without_terms_is_reported_and_answered_by_the_dense_leg(served: Searching, text: str) -> None:
    found = await served.retriever.retrieve(query(text), clock())
    assert given_up(found) == [(Stage.LEXICAL, "no_terms")]
    assert len(found.items) == len(TEXTS)
    alone = await served.retriever.retrieve(query(text, legs=LEXICAL_ONLY), clock())
    assert (alone.items, given_up(alone)) == ((), [(Stage.LEXICAL, "no_terms")])


async def test_a_query_without_terms_and_without_time_is_out_of_time(served: Searching) -> None:
    await served.retriever.retrieve(query("warm up"), clock())
    served.encoder.gate.clear()
    with pytest.raises(OutOfTime):
        await served.retriever.retrieve(query("the"), clock(encode=0.02))


async def test_a_very_long_query_is_cut_to_its_weightiest_terms_and_says_so(tmp_path: Path) -> None:
    handbook = [make_passage(f"h{n}", 0, text, language="en") for n, text in enumerate(TEXTS)]
    with searching(published(tmp_path, handbook, vectors(TEXTS)), options=HybridOptions(most_terms=2)) as served:
        found = await served.retriever.retrieve(query("museum closed depot nonsense more", legs=LEXICAL_ONLY), clock())
    assert given_up(found) == [(Stage.LEXICAL, "approximate")]
    assert "2 weightiest of 5 terms" in found.degraded[0].detail
    assert documents(found) == ["h2"]


async def test_earlier_turns_join_both_legs_at_lower_weight(served: Searching) -> None:
    alone = await served.retriever.retrieve(query("every hour"), clock())
    asides = (Aside("the museum is closed on mondays", 0.5),)
    joined = await served.retriever.retrieve(query("every hour", asides=asides), clock())
    assert documents(alone)[0] == documents(joined)[0] == "h1"
    assert documents(joined)[1] == "h2"
    assert {hit.leg for hit in joined.items[1].hits} == {Leg.LEXICAL, Leg.DENSE}
    assert len(served.encoder.batches[-1]) == 2


async def test_several_collections_are_searched_as_one(served: Searching) -> None:
    found = await served.retriever.retrieve(query("no soup on trams", "handbook", "laws"), clock())
    assert found.shelf.generation == "handbook@1+laws@3"
    assert documents(found)[0] == "l1"
    assert {"h4", "l0"} <= set(documents(found))
    for leg in Leg:
        ranks = [hit.rank for item in found.items for hit in item.hits if hit.leg is leg]
        assert sorted(ranks) == list(range(1, len(ranks) + 1))


async def test_a_leg_brings_as_many_as_it_was_asked_for(served: Searching) -> None:
    found = await served.retriever.retrieve(query("tram soup", "handbook", "laws", candidates=2), clock())
    assert len(found.items) == 2
    assert {hit.rank for item in found.items for hit in item.hits} <= {1, 2}


async def test_an_unknown_collection_is_not_found_and_the_known_ones_are_named(served: Searching) -> None:
    with pytest.raises(NotFound, match="handbook, laws"):
        await served.retriever.retrieve(query("tram", "handbook", "lost"), clock())


async def test_a_tenant_never_sees_anothers_collections(served: Searching) -> None:
    await served.retriever.retrieve(query("tram"), clock())
    with pytest.raises(NotFound) as refused:
        await served.retriever.retrieve(query("tram", tenant="other"), clock())
    assert "handbook'. There is no collection yet" in str(refused.value)


async def test_a_collection_without_a_generation_is_empty(served: Searching) -> None:
    served.current.refs["default", "new"] = None
    found = await served.retriever.retrieve(query("tram", "new"), clock())
    assert (found.items, found.shelf.generation) == ((), "new@0")
    both = await served.retriever.retrieve(query("night tram", "new", "handbook"), clock())
    assert documents(both)[0] == "h0"


async def test_one_who_leaves_ends_both_legs(served: Searching) -> None:
    await served.retriever.retrieve(query("warm up"), clock())
    served.encoder.gate.clear()
    served.encoder.begun.clear()
    async with occupied(served.lexical):
        leaving = asyncio.create_task(served.retriever.retrieve(query("night tram"), clock()))
        await until(served.encoder.begun.is_set)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert served.lexical.waiting == 0


def holds(lane: Lane, callers: int) -> bool:
    return lane.busy == 1 and lane.busy + lane.waiting == callers


@asynccontextmanager
async def occupied(lane: Lane, callers: int = 1) -> AsyncIterator[None]:
    """Keeps a lane's thread, and places in its line, while the block lasts."""
    done = threading.Event()

    async def hold() -> None:
        async with clock().lap(Stage.RERANK) as lap:
            await lane.run(lap, lambda _: done.wait(10))

    tasks: list[asyncio.Task[None]] = []
    try:
        await until(lambda: not lane.busy)  # what was asked before may have answered and not yet gone
        for number in range(1, callers + 1):
            tasks.append(asyncio.create_task(hold()))
            await until(partial(holds, lane, number))
        yield
    finally:
        done.set()
        await asyncio.gather(*tasks)
