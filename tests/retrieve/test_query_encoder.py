"""Queries are encoded once, together with whoever is in line, soonest deadline first, and never for nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from math import inf

import numpy as np
import pytest

from pipeline.clock import Budget, CacheUse, Clock, Lap, Stage
from pipeline.errors import OutOfTime, Overloaded
from pipeline.second_level import GuardedLevel
from retrieve.query_encoder import QueryEncoder, QueryEncoderOptions
from retrieve.vector_cache import VectorCache
from tests.fakes_cache import FakeLevel
from tests.fakes_encoder import FakeEncoder
from tests.generations import DIMENSIONS, EMBEDDER
from tests.searching import until


@pytest.fixture
def fake() -> FakeEncoder:
    return FakeEncoder()


@pytest.fixture
def known() -> VectorCache:
    return VectorCache.open(EMBEDDER, DIMENSIONS, entries=3)


@pytest.fixture
def encoder(fake: FakeEncoder, known: VectorCache) -> Iterator[QueryEncoder]:
    with QueryEncoder(fake, QueryEncoderOptions(line=4), known=known) as opened:
        yield opened
        fake.gate.set()


def lap(granted: float = inf) -> Lap:
    return Lap(Stage.ENCODE, time.perf_counter(), granted)


async def begun(fake: FakeEncoder) -> None:
    """Waits until the owner thread has begun a batch."""
    await until(fake.begun.is_set)
    fake.begun.clear()


async def test_texts_come_back_in_order_each_with_its_own_vector(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    rows = await encoder.encode(["b", "a", "b"], lap())
    assert rows.shape == (3, fake.dimensions)
    np.testing.assert_array_equal(rows, np.stack([fake.vector(text) for text in ("b", "a", "b")]))
    assert encoder.counts.computed == 2


async def test_a_text_asked_again_is_not_computed_again(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    await encoder.encode(["tram"], lap())
    await encoder.encode(["tram"], lap())
    assert len(fake.batches) == 1
    assert (encoder.counts.hits, encoder.counts.computed) == (1, 1)


async def test_the_text_that_was_not_asked_for_longest_leaves_the_cache(encoder: QueryEncoder) -> None:
    for text in ("a", "b", "c", "a", "d", "a", "b"):
        await encoder.encode([text], lap())
    assert (encoder.counts.hits, encoder.counts.computed) == (2, 5)


async def test_a_vector_from_the_cache_cannot_be_changed(encoder: QueryEncoder) -> None:
    row = (await encoder.encode(["a"], lap()))[0]
    row[:] = 0  # what is handed out is a copy
    assert np.linalg.norm((await encoder.encode(["a"], lap()))[0]) == pytest.approx(1)


async def test_those_who_ask_the_same_at_the_same_time_share_one_run(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    fake.gate.clear()
    asked = [asyncio.create_task(encoder.encode(["tram"], lap())) for _ in range(5)]
    await begun(fake)
    asked.append(asyncio.create_task(encoder.encode(["tram"], lap())))
    await asyncio.sleep(0)
    fake.gate.set()
    rows = await asyncio.gather(*asked)
    assert len(fake.batches) == 1
    assert encoder.counts.joined == 5
    assert all((row == rows[0]).all() for row in rows)


async def test_one_who_leaves_does_not_take_the_result_from_the_others(
    fake: FakeEncoder, encoder: QueryEncoder
) -> None:
    fake.gate.clear()
    leaving, staying = (asyncio.create_task(encoder.encode(["tram"], lap())) for _ in range(2))
    await begun(fake)
    leaving.cancel()
    await asyncio.sleep(0)
    fake.gate.set()
    np.testing.assert_array_equal((await staying)[0], fake.vector("tram"))
    assert leaving.cancelled()


async def test_what_nobody_wants_any_more_is_never_computed(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    fake.gate.clear()
    first = asyncio.create_task(encoder.encode(["first"], lap()))
    await begun(fake)
    left = asyncio.create_task(encoder.encode(["left"], lap()))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert encoder.waiting == 0
    fake.gate.set()
    await first
    await encoder.encode(["last"], lap())
    assert fake.batches == [[fake.tokenize("first")], [fake.tokenize("last")]]


async def test_a_vector_computed_for_one_who_left_is_kept(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    fake.gate.clear()
    asked = asyncio.create_task(encoder.encode(["tram"], lap()))
    await begun(fake)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    fake.gate.set()
    await encoder.encode(["tram"], lap())
    assert len(fake.batches) == 1


async def test_whoever_is_in_line_makes_a_batch_soonest_deadline_first(
    fake: FakeEncoder, encoder: QueryEncoder
) -> None:
    fake.gate.clear()
    tasks = [asyncio.create_task(encoder.encode(["first"], lap()))]
    await begun(fake)
    for text, granted in (("patient", inf), ("soon", 200.0), ("sooner", 100.0)):
        tasks.append(asyncio.create_task(encoder.encode([text], lap(granted))))
        await asyncio.sleep(0)
    fake.gate.set()
    await asyncio.gather(*tasks)
    assert fake.batches[1:] == [[fake.tokenize(text) for text in ("sooner", "soon", "patient")]]


async def test_a_batch_stops_at_its_bound_of_padded_tokens(fake: FakeEncoder) -> None:
    with QueryEncoder(fake, QueryEncoderOptions(batch_tokens=10)) as encoder:
        await encoder.encode(["word" * 4, "x", "y", "z"], lap())
    # Estimated at 6, 2, 2 and 2 tokens: the long one alone, as two of six are over ten; the three others together.
    assert [len(batch) for batch in fake.batches] == [1, 3]


async def test_somebody_sooner_hastens_a_text_that_is_in_line_already(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    fake.gate.clear()
    tasks = [asyncio.create_task(encoder.encode(["first"], lap()))]
    await begun(fake)
    for text, granted in (("a", inf), ("b", 500.0), ("a", 100.0)):
        tasks.append(asyncio.create_task(encoder.encode([text], lap(granted))))
        await asyncio.sleep(0)
    fake.gate.set()
    await asyncio.gather(*tasks)
    assert fake.batches[1] == [fake.tokenize("a"), fake.tokenize("b")]


async def test_beyond_its_line_it_refuses_at_once_and_says_when_to_come_back(
    fake: FakeEncoder, encoder: QueryEncoder
) -> None:
    fake.gate.clear()
    tasks = [asyncio.create_task(encoder.encode(["first"], lap()))]
    await begun(fake)
    tasks.append(asyncio.create_task(encoder.encode(["a", "b", "c", "d"], lap())))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded) as refused:
        await encoder.encode(["e"], lap())
    assert refused.value.retry_after is not None
    assert refused.value.retry_after > 0
    tasks.append(asyncio.create_task(encoder.encode(["a"], lap())))  # rides along, and takes no place
    await asyncio.sleep(0)
    fake.gate.set()
    await asyncio.gather(*tasks)


async def test_waiting_in_line_is_told_from_working(fake: FakeEncoder) -> None:
    time = 0.0

    def now() -> float:
        return time

    with QueryEncoder(fake, now=now) as encoder:
        fake.gate.clear()
        first = asyncio.create_task(encoder.encode(["first"], lap()))
        await begun(fake)
        behind = lap()
        second = asyncio.create_task(encoder.encode(["second"], behind))
        await asyncio.sleep(0)
        time = 3.0
        fake.gate.set()
        await asyncio.gather(first, second)
        assert behind.waited == 3.0


async def test_a_late_encoder_costs_its_caller_no_more_than_was_granted(
    fake: FakeEncoder, encoder: QueryEncoder
) -> None:
    fake.gate.clear()
    clock = Clock(Budget(0.02))
    with pytest.raises(OutOfTime):
        async with clock.lap(Stage.ENCODE) as late:
            await encoder.encode(["tram"], late)
    fake.gate.set()


async def test_a_failing_model_fails_its_callers_and_not_the_next(fake: FakeEncoder, encoder: QueryEncoder) -> None:
    fake.error = RuntimeError("the model failed")
    with pytest.raises(RuntimeError, match="the model failed"):
        await encoder.encode(["tram"], lap())
    fake.error = None
    np.testing.assert_array_equal((await encoder.encode(["tram"], lap()))[0], fake.vector("tram"))


async def test_what_the_caches_were_worth_is_counted_on_the_lap(encoder: QueryEncoder) -> None:
    timed = lap()
    await encoder.encode(["a", "b", "a"], timed)
    await encoder.encode(["b", "c"], timed)
    assert timed.caches == {"vectors": CacheUse(1, 4)}


async def test_without_single_flight_everybody_is_computed_for(fake: FakeEncoder) -> None:
    with QueryEncoder(fake, QueryEncoderOptions(single_flight=False)) as encoder:
        fake.gate.clear()
        asked = [asyncio.create_task(encoder.encode(["tram"], lap())) for _ in range(3)]
        await begun(fake)
        fake.gate.set()
        await asyncio.gather(*asked)
        assert sum(len(batch) for batch in fake.batches) == 3
        assert (encoder.counts.joined, encoder.counts.computed) == (0, 3)


async def test_without_a_cache_and_single_flight_a_leaver_takes_his_place_with_him(fake: FakeEncoder) -> None:
    with QueryEncoder(fake, QueryEncoderOptions(single_flight=False)) as encoder:
        fake.gate.clear()
        first = asyncio.create_task(encoder.encode(["first"], lap()))
        await begun(fake)
        leaving, staying = (asyncio.create_task(encoder.encode(["tram"], lap())) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert encoder.waiting == 1
        fake.gate.set()
        await asyncio.gather(first, staying)


async def test_an_instance_has_the_vector_that_another_computed(fake: FakeEncoder) -> None:
    level = GuardedLevel(FakeLevel())
    for counted in ((0, 1), (1, 0)):
        known = VectorCache.open(EMBEDDER, DIMENSIONS, second=level)
        with QueryEncoder(fake, known=known) as encoder:
            np.testing.assert_array_equal((await encoder.encode(["tram"], lap()))[0], fake.vector("tram"))
            assert (encoder.counts.shared_hits, encoder.counts.computed) == counted
    assert len(fake.batches) == 1


@pytest.mark.parametrize("other", [("another-embedder", DIMENSIONS), (EMBEDDER, DIMENSIONS * 2)])
async def test_a_vector_of_another_model_is_never_used(fake: FakeEncoder, other: tuple[str, int]) -> None:
    level = GuardedLevel(FakeLevel())
    VectorCache.open(*other, second=level).keep("tram", np.zeros(other[1], np.float32))
    with QueryEncoder(fake, known=VectorCache.open(EMBEDDER, DIMENSIONS, second=level)) as encoder:
        np.testing.assert_array_equal((await encoder.encode(["tram"], lap()))[0], fake.vector("tram"))


async def test_a_second_level_that_hangs_costs_a_part_of_the_lap_and_not_the_vector(fake: FakeEncoder) -> None:
    behind = FakeLevel()
    behind.gate.clear()
    known = VectorCache.open(EMBEDDER, DIMENSIONS, second=GuardedLevel(behind))
    with QueryEncoder(fake, known=known) as encoder:
        async with asyncio.timeout(10):  # it would wait for ever
            np.testing.assert_array_equal((await encoder.encode(["tram"], lap(60.0)))[0], fake.vector("tram"))


async def test_what_somebody_computed_during_the_look_is_not_computed_again(fake: FakeEncoder) -> None:
    behind = FakeLevel()
    behind.gate.clear()
    known = VectorCache.open(EMBEDDER, DIMENSIONS, second=behind)
    with QueryEncoder(fake, known=known) as encoder:
        asked = asyncio.create_task(encoder.encode(["tram"], lap()))
        await until(lambda: behind.asked == 1)
        known.keep("tram", fake.vector("tram"))
        behind.kept.clear()
        behind.gate.set()
        await asked
    assert fake.batches == []
