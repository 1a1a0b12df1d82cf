"""From the generator to whoever takes the tokens: bounded in time, measured, and ended cleanly when time is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf

from api.metrics import Metrics
from pipeline.answering import Answer
from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import OutOfTime
from pipeline.passages import Degraded, Token


async def relay(
    answer: Answer,
    clock: Clock,
    take: Callable[[Token], Awaitable[None]],
    *,
    total: float | None,
    inter_token: float,
    waited: Callable[[], float],
    metrics: Metrics,
) -> Degraded | None:
    """Hands every token to `take`, within the lap `generate`; returns what was given up when time ran out.

    From here on the deadline of the first token has been kept and `total` holds, in seconds from the first byte. What
    `waited` returns is the time in which the reader took nothing, and counts as waiting.
    """
    clock.budget = Budget(inf if total is None else total)
    began = last = time.perf_counter()
    completion = 0
    try:
        async with clock.lap(Stage.GENERATE) as lap, heard_within(inter_token) as silence:
            token = answer.first
            while token is not None:
                if token.usage is not None:
                    completion = token.usage.completion
                await take(token)
                lap.waited = waited()
                silence.begins()
                token = await anext(answer.tokens, None)
                silence.ends()
                if token is not None and token.delta:
                    now = time.perf_counter()
                    metrics.token(now - last)
                    last = now
    except OutOfTime as late:
        if late.stage != Stage.GENERATE:
            raise
        return Degraded(Stage.GENERATE, "out_of_time", _detail(late, inter_token, total))
    metrics.generated(completion, last - began)
    return None


class Silence:
    """Bounds each of many waits with one timer: it looks how long the present one has lasted, and sleeps again.

    (A time-out of its own for every token costs as much as parsing it.)
    """

    def __init__(self, bound: asyncio.Timeout, seconds: float) -> None:
        self._bound = bound
        self._seconds = seconds
        self._since = inf
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._look)

    def begins(self) -> None:
        """From now on somebody is waited for."""
        self._since = self._loop.time()

    def ends(self) -> None:
        """They have spoken."""
        self._since = inf

    def over(self) -> None:
        """Nobody is waited for any more."""
        self._timer.cancel()

    def _look(self) -> None:
        lasts = max(self._loop.time() - self._since, 0.0)
        if lasts < self._seconds:
            self._timer = self._loop.call_later(self._seconds - lasts, self._look)
        else:
            self._bound.reschedule(self._loop.time())


@asynccontextmanager
async def heard_within(seconds: float) -> AsyncGenerator[Silence, None]:
    """A block in which no wait may last longer than that. Raises OutOfTime where one does."""
    bound = asyncio.timeout(None)
    try:
        async with bound:
            silence = Silence(bound, seconds)
            try:
                yield silence
            finally:
                silence.over()
    except TimeoutError:
        if not bound.expired():
            raise
        raise OutOfTime(Stage.GENERATE, seconds) from None


def _detail(late: OutOfTime, inter_token: float, total: float | None) -> str:
    if late.granted == inter_token:
        return f"no token for {inter_token:g} s"
    return f"ended at its total deadline of {(total or 0) * 1000:.0f} ms"
