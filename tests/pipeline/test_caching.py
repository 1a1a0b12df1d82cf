"""A cache keeps what it was given, as long as there is room, and never takes one question for another."""

from __future__ import annotations

import asyncio
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from pipeline.caching import OVERHEAD, PART, Cache, CacheOptions, key_of
from pipeline.clock import Lap, Stage
from tests.fakes_cache import FakeLevel

A, B, C = (key_of("test", name) for name in "abc")
PARTS = st.lists(st.text(max_size=3) | st.binary(max_size=3), max_size=4)


def lap(granted: float = inf) -> Lap:
    return Lap(Stage.ENCODE, 0.0, granted)


def as_bytes(parts: list[str | bytes]) -> list[bytes]:
    return [part.encode() if isinstance(part, str) else part for part in parts]


@given(one=PARTS, other=PARTS)
def test_two_keys_are_equal_only_where_all_their_parts_are(one: list[str | bytes], other: list[str | bytes]) -> None:
    assert (key_of("test", *one) == key_of("test", *other)) == (as_bytes(one) == as_bytes(other))


def test_parts_cannot_run_into_each_other_nor_one_kind_into_another() -> None:
    assert key_of("test", "ab", "c") != key_of("test", "a", "bc")
    assert key_of("test", "a", "") != key_of("test", "a")
    assert key_of("vector", "a") != key_of("scores", "a")


def test_a_text_that_is_no_unicode_has_a_key_of_its_own() -> None:
    assert key_of("test", "\ud800") != key_of("test", "?")


def test_no_text_can_be_read_from_a_key() -> None:
    assert b"salary" not in key_of("test", "salary")


def test_what_was_not_asked_for_longest_goes_first() -> None:
    cache = Cache(CacheOptions(entries=2))
    cache.keep(A, b"a")
    cache.keep(B, b"b")
    assert cache.get(A) == b"a"
    cache.keep(C, b"c")
    assert (cache.get(A), cache.get(B), cache.get(C)) == (b"a", None, b"c")
    assert cache.entries == 2


def test_a_bound_of_bytes_holds() -> None:
    cache = Cache(CacheOptions(entries=None, bytes=2 * (OVERHEAD + 100)))
    for key in (A, B, C):
        cache.keep(key, bytes(100))
    assert (cache.entries, cache.size) == (2, 2 * (OVERHEAD + 100))
    cache.keep(A, bytes(10_000))  # more than there is room for at all
    assert (cache.get(A), cache.entries, cache.size) == (None, 2, 2 * (OVERHEAD + 100))


def test_a_value_that_is_kept_anew_takes_the_place_of_the_old_one() -> None:
    cache = Cache(CacheOptions())
    cache.keep(A, bytes(100))
    cache.keep(A, b"new")
    assert (cache.get(A), cache.entries, cache.size) == (b"new", 1, OVERHEAD + 3)


def test_without_room_nothing_is_kept() -> None:
    cache = Cache(CacheOptions(entries=0))
    cache.keep(A, b"a")
    assert (cache.get(A), cache.entries, cache.size) == (None, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50), st.booleans()), max_size=60))
def test_its_figures_are_those_of_what_it_keeps(steps: list[tuple[int, int, bool]]) -> None:
    cache = Cache(CacheOptions(entries=4, bytes=3 * OVERHEAD + 60))
    plain: dict[bytes, bytes] = {}
    for number, length, forgets in steps:
        if forgets:
            cache.forget(lambda about, number=number: about == number % 3)
        else:
            key = key_of("test", str(number))
            cache.keep(key, bytes(length), about=number % 3)
            plain[key] = bytes(length)
    kept = {key: value for key in plain if (value := cache.get(key)) is not None}
    assert all(plain[key] == value for key, value in kept.items())
    assert cache.entries == len(kept) <= 4
    assert cache.size == sum(OVERHEAD + len(value) for value in kept.values()) <= 3 * OVERHEAD + 60


def test_forgetting_takes_what_it_was_told_and_nothing_else() -> None:
    cache = Cache(CacheOptions())
    cache.keep(A, b"a", about="old")
    cache.keep(B, b"b", about="new")
    assert cache.forget(lambda about: about == "old") == 1
    assert (cache.get(A), cache.get(B)) == (None, b"b")


async def test_what_is_kept_goes_to_the_second_level_and_comes_back_from_there_once() -> None:
    level = FakeLevel()
    Cache(CacheOptions(), second=level).keep(A, b"a")
    other = Cache(CacheOptions(), second=level)
    assert await other.fetch([A, B], lap()) == {A: b"a"}
    assert other.get(A) == b"a"


async def test_a_value_of_the_wrong_shape_is_as_good_as_absent() -> None:
    level = FakeLevel()
    level.kept[A] = b"too long"
    cache = Cache(CacheOptions(), second=level, whole=lambda value: len(value) == 1)
    assert await cache.fetch([A], lap()) == {}
    assert cache.get(A) is None


async def test_somebody_in_a_hurry_waits_for_a_part_of_his_time_only() -> None:
    level = FakeLevel()
    level.gate.clear()
    cache = Cache(CacheOptions(), second=level)
    async with asyncio.timeout(10):  # it would wait for ever
        assert await cache.fetch([A], lap(0.01 / PART)) == {}
