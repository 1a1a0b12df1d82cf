"""A cache of retrievals that cannot lie: whatever is published, and whoever asks, it says what a search would say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.clock import Budget, CacheUse, Clock, Stage
from pipeline.errors import OutOfTime
from pipeline.passages import Aside, Caller, Candidates, Leg, Query
from pipeline.ports import GenerationRef
from pipeline.profile import Fusion, Search
from pipeline.second_level import GuardedLevel
from retrieve.cached import CachedRetriever, retrieval_key
from tests.fakes_cache import FakeLevel, flipped
from tests.fakes_encoder import FakeEncoder
from tests.fakes_shelf import make_passage
from tests.generations import file_of, published
from tests.searching import Searching, query, searching, until

KEY = retrieval_key("this test")
TENANTS, COLLECTIONS, NUMBERS = ("acme", "zeta"), ("handbook", "laws"), (1, 2, 3)
WORDS = "tram ferry museum soup island ticket".split()


def written(folder: Path, tenant: str, collection: str, number: int) -> GenerationRef:
    """A generation in which every passage says whose it is."""
    texts = [f"{word} of the {collection} of {tenant} as of {number}" for word in WORDS[: 3 + number]]
    passages = [make_passage(f"{tenant}-{n}", 0, text, language="en") for n, text in enumerate(texts)]
    vectors = np.stack([FakeEncoder().vector(text) for text in texts])
    return published(folder / tenant, passages, vectors, collection=collection, number=number)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, int], GenerationRef]:
    folder = tmp_path_factory.mktemp("library")
    return {
        (tenant, collection, number): written(folder, tenant, collection, number)
        for tenant in TENANTS
        for collection in COLLECTIONS
        for number in NUMBERS
    }


Library = dict[tuple[str, str, int], GenerationRef]


@contextmanager
def serving(library: Library) -> Iterator[Searching]:
    """The first generation of everything."""
    with searching() as served:
        for tenant in TENANTS:
            for collection in COLLECTIONS:
                served.current.refs[tenant, collection] = library[tenant, collection, 1]
        yield served


@pytest.fixture
def served(library: Library) -> Iterator[Searching]:
    with serving(library) as opened:
        yield opened


@pytest.fixture
def cached(served: Searching) -> CachedRetriever:
    return CachedRetriever.open(served.retriever, served.generations, KEY)


def asked(text: str = "tram", *collections: str, tenant: str = "acme", **search: object) -> Query:
    return query(text, *collections, tenant=tenant, **search)


def clock(total: float = 60.0, **shares: float) -> Clock:
    return Clock(Budget(total, {Stage(stage): seconds for stage, seconds in shares.items()}))


def told(candidates: Candidates) -> tuple[object, ...]:
    """All that a request can see of a result."""
    passages = candidates.shelf.passages([item.key for item in candidates.items])
    return candidates.items, candidates.shelf.generation, candidates.degraded, passages


async def publish(served: Searching, ref: GenerationRef, tenant: str = "acme") -> None:
    served.current.refs[tenant, ref.collection] = ref
    await served.generations.refresh()


PUBLISH = st.tuples(st.sampled_from(TENANTS), st.sampled_from(COLLECTIONS), st.sampled_from(NUMBERS), st.booleans())
ASK = st.builds(
    Query,
    st.sampled_from(["tram", "soup on an island", "the of", "zeta 2"]),
    st.builds(Caller, st.sampled_from(TENANTS), labels=st.sampled_from([frozenset(), frozenset({"staff"})])),
    st.sampled_from([("handbook",), ("laws",), ("handbook", "laws"), ("laws", "handbook")]),
    st.builds(
        lambda **search: replace(query("x").profile, search=Search(**search)),
        legs=st.sampled_from([(Leg.LEXICAL,), (Leg.DENSE,), (Leg.LEXICAL, Leg.DENSE)]),
        candidates=st.sampled_from([2, 100]),
        fusion=st.sampled_from(Fusion),
        dense_weight=st.sampled_from([0.5, 0.9]),
    ),
    st.sampled_from([(), (Aside("museum", 0.5),), (Aside("museum", 0.25),)]),
)


@settings(max_examples=40)
@given(steps=st.lists(PUBLISH | ASK, min_size=5, max_size=40), harm=st.booleans())
async def test_whatever_happens_it_answers_as_its_twin_without_a_cache(
    library: Library, steps: list[tuple[str, str, int, bool] | Query], harm: bool
) -> None:
    """Two instances share a second level, which in half of the runs flips a bit of everything that it gives out."""
    level = FakeLevel()
    level.harm = flipped if harm else level.harm
    with serving(library) as served:
        instances = [
            CachedRetriever.open(served.retriever, served.generations, KEY, entries=6, second=GuardedLevel(level))
            for _ in range(2)
        ]
        for turn, step in enumerate(steps):
            if isinstance(step, Query):
                twin = await served.retriever.retrieve(step, clock())
                found = await instances[turn % 2].retrieve(step, clock())
                assert told(found) == told(twin)
                assert found.items == (await instances[turn % 2].retrieve(step, clock())).items
            else:
                tenant, collection, number, at_once = step
                served.current.refs[tenant, collection] = library[tenant, collection, number]
                if at_once:
                    await served.generations.refresh()
                for instance in instances:
                    instance.forget_retired((s.tenant, s.generation) for s in served.generations.states())


async def test_what_was_found_before_is_not_searched_again_and_its_time_is_its_own(
    served: Searching, cached: CachedRetriever
) -> None:
    first, again = clock(), clock()
    found = await cached.retrieve(asked(), first)
    served.encoder.gate.clear()  # another search would wait here
    assert told(await cached.retrieve(asked(), again)) == told(found)
    assert [timing.stage for timing in again.timings] == [Stage.CACHE]
    assert first.caches["retrievals"] == CacheUse(0, 1)
    assert again.caches == {"retrievals": CacheUse(1, 1)}
    assert (cached.counts.hits, cached.counts.computed, cached.entries) == (1, 1, 1)


async def test_after_a_publish_the_old_result_is_never_served_and_other_collections_stay(
    served: Searching, cached: CachedRetriever, library: Library
) -> None:
    for name in COLLECTIONS:
        await cached.retrieve(asked("tram", name), clock())
    await publish(served, library["acme", "handbook", 2])
    found = await cached.retrieve(asked("tram", "handbook"), clock())
    assert found.shelf.generation == "handbook@2"
    assert all("as of 2" in passage.text for passage in found.shelf.passages([item.key for item in found.items]))
    await cached.retrieve(asked("tram", "laws"), clock())
    assert (cached.counts.hits, cached.counts.computed) == (1, 3)


async def test_what_is_kept_of_retired_generations_goes_away(
    served: Searching, cached: CachedRetriever, library: Library
) -> None:
    for names in (("handbook",), ("laws",), COLLECTIONS):
        await cached.retrieve(asked("tram", *names), clock())
    await publish(served, library["acme", "handbook", 2])
    assert cached.forget_retired((s.tenant, s.generation or "") for s in served.generations.states()) == 2
    assert cached.entries == 1


@pytest.mark.parametrize(
    "other",
    [
        asked("ferry"),
        asked("tram "),
        asked("tram", "laws"),
        asked("tram", "handbook", "laws"),
        asked(tenant="zeta"),
        replace(asked(), caller=Caller("acme", labels=frozenset({"staff"}))),
        replace(asked(), asides=(Aside("museum", 0.5),)),
        asked(legs=(Leg.LEXICAL,)),
        asked(legs=(Leg.DENSE, Leg.LEXICAL)),
        asked(candidates=99),
        asked(fusion=Fusion.MIN_MAX),
        asked(rrf_k=61),
        asked(dense_weight=0.51),
    ],
)
async def test_what_differs_in_anything_that_matters_is_never_shared(cached: CachedRetriever, other: Query) -> None:
    await cached.retrieve(asked(), clock())
    await cached.retrieve(other, clock())
    assert (cached.counts.hits, cached.counts.computed) == (0, 2)


async def test_what_does_not_matter_to_a_search_is_no_part_of_the_key(cached: CachedRetriever) -> None:
    await cached.retrieve(asked(), clock())
    same = asked()
    caller = replace(same.caller, scopes=frozenset(), quota=7, priority=3)
    await cached.retrieve(replace(same, caller=caller, request_id="other", sampling={"n": 1}), clock(30.0))
    assert cached.counts.hits == 1


def test_a_new_field_of_a_query_is_not_forgotten_in_the_key() -> None:
    """Whoever adds one decides here whether it belongs into `retrieval_key`; all of Search is in it by itself."""
    in_key = {"text", "caller", "collections", "profile", "asides", "filter"}
    without_effect = {"conversation", "sampling", "request_id"}
    assert {field.name for field in fields(Query)} == in_key | without_effect
    assert {field.name for field in fields(Caller)} == {"tenant", "labels"} | {"scopes", "quota", "priority"}


async def test_what_was_given_up_is_true_of_its_moment_and_never_kept(
    served: Searching, cached: CachedRetriever
) -> None:
    served.encoder.gate.clear()
    hurried = await cached.retrieve(asked(), clock(encode=0.02))
    assert [each.reason for each in hurried.degraded] == ["out_of_time"]
    served.encoder.gate.set()
    whole = await cached.retrieve(asked(), clock())
    assert whole.degraded == ()
    assert {hit.leg for item in whole.items for hit in item.hits} == set(Leg)
    assert cached.entries == 1


async def test_a_hit_says_what_is_wrong_with_its_generation_now(
    served: Searching, cached: CachedRetriever, library: Library, tmp_path: Path
) -> None:
    await cached.retrieve(asked(), clock())
    damaged = written(tmp_path, "acme", "handbook", 9)
    file_of(damaged, "posting_rows.npy").write_bytes(b"")
    await publish(served, damaged)
    found = await cached.retrieve(asked(), clock())
    assert cached.counts.hits == 1
    assert [each.reason for each in found.degraded] == ["earlier_generation"]


async def test_a_result_is_kept_for_the_generation_it_was_found_on(
    served: Searching, cached: CachedRetriever, library: Library
) -> None:
    """A publish comes between the look and the search."""

    class Between:
        async def retrieve(self, query: Query, clock: Clock) -> Candidates:
            await publish(served, library["acme", "handbook", 2])
            return await served.retriever.retrieve(query, clock)

    late = CachedRetriever.open(Between(), served.generations, KEY)
    assert (await late.retrieve(asked(), clock())).shelf.generation == "handbook@2"
    assert told(await late.retrieve(asked(), clock())) == told(await served.retriever.retrieve(asked(), clock()))
    assert late.counts.hits == 1


async def test_with_nothing_left_it_is_out_of_time_also_for_what_is_kept(cached: CachedRetriever) -> None:
    await cached.retrieve(asked(), clock())
    with pytest.raises(OutOfTime):
        await cached.retrieve(asked(), clock(0.0))


async def test_an_instance_has_what_another_found(served: Searching) -> None:
    level = GuardedLevel(FakeLevel())
    one, other = (CachedRetriever.open(served.retriever, served.generations, KEY, second=level) for _ in range(2))
    found = await one.retrieve(asked(), clock())
    served.encoder.gate.clear()
    assert told(await other.retrieve(asked(), clock())) == told(found)
    assert other.counts.shared_hits == 1
    await other.retrieve(asked(), clock())
    assert other.counts.hits == 1


async def test_instances_that_search_differently_share_nothing(served: Searching) -> None:
    level = GuardedLevel(FakeLevel())
    for made_by in ("ef 128", "ef 256"):
        one = CachedRetriever.open(served.retriever, served.generations, retrieval_key(made_by), second=level)
        await one.retrieve(asked(), clock())
        assert one.counts.computed == 1


async def test_what_another_wrote_that_this_shelf_does_not_have_is_searched_for(
    served: Searching, library: Library
) -> None:
    level = FakeLevel()
    guarded = GuardedLevel(level)
    shelf = await served.generations.shelf("acme", ("handbook",), clock())
    guarded.put_many({KEY(asked(), shelf): b"\1\0\0\0\0\0\0\0" + bytes([255] * 17)})  # whole, of key -1
    cached = CachedRetriever.open(served.retriever, served.generations, KEY, second=guarded)
    assert told(await cached.retrieve(asked(), clock())) == told(await served.retriever.retrieve(asked(), clock()))


async def test_one_who_leaves_ends_the_search(served: Searching, cached: CachedRetriever) -> None:
    await cached.retrieve(asked("warm up"), clock())
    served.encoder.gate.clear()
    served.encoder.begun.clear()
    leaving = asyncio.create_task(cached.retrieve(asked(), clock()))
    await until(served.encoder.begun.is_set)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert cached.entries == 1
