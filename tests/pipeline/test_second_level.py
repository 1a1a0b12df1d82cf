"""A second level that is slow, away or wrong costs hits and nothing else."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.caching import key_of
from pipeline.second_level import GuardedLevel, GuardOptions
from tests.fakes_cache import FakeLevel, flipped

A, B = key_of("test", "a"), key_of("test", "b")


class Now:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def guarded(level: FakeLevel, now: Now | None = None) -> GuardedLevel:
    return GuardedLevel(level, GuardOptions(patience=0.01, failures=2, rest=5.0), now=now or Now())


async def test_what_is_put_comes_back() -> None:
    level = guarded(FakeLevel())
    level.put_many({A: b"value", B: b""})
    assert await level.get_many([B, A, key_of("test", "c")]) == [b"", b"value", None]


async def test_one_that_does_not_answer_is_waited_for_no_longer_than_patience() -> None:
    behind = FakeLevel()
    level = guarded(behind)
    level.put_many({A: b"value"})
    behind.gate.clear()
    async with asyncio.timeout(10):  # it would wait for ever
        assert await level.get_many([A]) == [None]
    assert level.failed == 1


async def test_one_that_is_away_is_left_alone_for_a_while_and_then_tried_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    behind, now = FakeLevel(), Now()
    level = guarded(behind, now)
    level.put_many({A: b"value"})
    behind.error = ConnectionRefusedError("nobody listens")
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            assert await level.get_many([A]) == [None]
        assert behind.asked == 2
        now.time += 5.0
        await asyncio.gather(*(level.get_many([A]) for _ in range(10)))
        assert behind.asked == 3
        behind.error = None
        assert await level.get_many([A]) == [None]  # it still rests
        now.time += 5.0
        assert await level.get_many([A]) == [b"value"]
        assert await level.get_many([A]) == [b"value"]
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert "nobody listens" in said[0]
    assert said[1].startswith("This is over")


async def test_while_it_rests_nothing_is_handed_to_it() -> None:
    behind, now = FakeLevel(), Now()
    level = guarded(behind, now)
    behind.error = ConnectionRefusedError()
    for _ in range(2):
        await level.get_many([A])
    level.put_many({A: b"value"})
    assert behind.kept == {}


async def test_one_failure_among_answers_is_forgiven() -> None:
    behind = FakeLevel()
    level = guarded(behind)
    level.put_many({A: b"value"})
    for _ in range(5):
        behind.error = ConnectionResetError()
        assert await level.get_many([A]) == [None]
        behind.error = None
        assert await level.get_many([A]) == [b"value"]


async def test_one_who_leaves_early_is_no_failure_and_one_who_waited_is() -> None:
    behind, now = FakeLevel(), Now()
    level = guarded(behind, now)
    behind.gate.clear()
    for waited, failed in ((0.001, 0), (0.003, 1)):
        asking = asyncio.create_task(level.get_many([A]))
        await asyncio.sleep(0)
        now.time += waited
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert level.failed == failed


@given(value=st.binary(max_size=40), at=st.integers(0, 10_000), bit=st.integers(0, 7))
async def test_a_flipped_bit_anywhere_makes_it_nobodys_value(value: bytes, at: int, bit: int) -> None:
    behind = FakeLevel()
    level = guarded(behind)
    level.put_many({A: value})
    sealed = bytearray(behind.kept[A])
    sealed[at % len(sealed)] ^= 1 << bit
    behind.kept[A] = bytes(sealed)
    assert await level.get_many([A]) == [None]
    assert level.refused == 1


@pytest.mark.parametrize("harm", [lambda _: b"", lambda value: value[:-1], lambda value: value + b"\0", flipped])
async def test_garbage_is_refused(harm: object) -> None:
    behind = FakeLevel()
    level = guarded(behind)
    level.put_many({A: b"value"})
    behind.harm = harm  # type: ignore[assignment]  # whatever a test does to it
    assert await level.get_many([A]) == [None]


async def test_a_value_that_lies_under_another_key_is_refused() -> None:
    behind = FakeLevel()
    level = guarded(behind)
    level.put_many({A: b"value of a"})
    behind.kept[B] = behind.kept[A]
    assert await level.get_many([A, B]) == [b"value of a", None]


async def test_an_answer_of_the_wrong_length_is_refused() -> None:
    class Short(FakeLevel):
        async def get_many(self, keys: object) -> list[bytes | None]:
            return []

    assert await guarded(Short()).get_many([A]) == [None]
