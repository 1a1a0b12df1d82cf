"""How late the event loop is, measured on a clock that a test moves."""

from __future__ import annotations

import asyncio

import pytest

from api.lag import EVERY, Lag


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


async def test_a_loop_that_was_held_up_is_late_by_just_that() -> None:
    hands, told = Hands(), list[float]()
    lag = Lag(told.append, clock=hands)
    async with lag.watched():
        await asyncio.sleep(0)
        hands.at += EVERY + 0.25
        while not told:  # noqa: ASYNC110  a look is a twentieth of a second away
            await asyncio.sleep(0.01)
    assert told[0] == pytest.approx(0.25)
    assert 0 < lag.now < 0.25


async def test_a_loop_that_is_late_already_is_seen_before_the_next_look() -> None:
    hands = Hands()
    lag = Lag(lambda _: None, clock=hands)
    async with lag.watched():
        await asyncio.sleep(0)
        assert lag.now == 0.0
        hands.at += EVERY + 0.5
        assert lag.now == pytest.approx(0.5)


def test_one_look_does_not_make_a_lag_and_many_do() -> None:
    lag = Lag(lambda _: None)
    lag.learn(1.0)
    assert lag.now == pytest.approx(0.2)
    for _ in range(30):
        lag.learn(1.0)
    assert lag.now > 0.99
    for _ in range(30):
        lag.learn(-0.001)
    assert lag.now < 0.01
