"""From the generator to whoever takes the tokens: bounded in time, measured, and ended cleanly when time is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
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
        async with clock.lap(Stage.GENERATE) as lap:
            token = answer.first
            while token is not None:
                if token.usage is not None:
                    completion = token.usage.completion
                await take(token)
                lap.waited = waited()
                token = await _next(answer.tokens, inter_token)
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


async def _next(tokens: AsyncGenerator[Token, None], seconds: float) -> Token | None:
    try:
        async with asyncio.timeout(seconds):
            return await anext(tokens, None)
    except TimeoutError:
        raise OutOfTime(Stage.GENERATE, seconds) from None


def _detail(late: OutOfTime, inter_token: float, total: float | None) -> str:
    if late.granted == inter_token:
        return f"no token for {inter_token:g} s"
    return f"ended at its total deadline of {(total or 0) * 1000:.0f} ms"
