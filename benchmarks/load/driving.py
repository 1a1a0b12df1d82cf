"""The loops that send, over any way to ask and any timer.

An open loop never waits for an answer, so a service that stalls is asked on, as people would ask on, and what piles up
is seen. A closed loop sends less while the service stalls: what was not asked then is missing from its percentiles
(coordinated omission, so called by Gil Tene), which `benchmarks/load/correcting.py` makes up for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from math import inf

from benchmarks.load.plan import Plan
from benchmarks.load.recording import Reply, Sample
from benchmarks.load.timer import Timer

LEAD = 0.05  # seconds between the decision to begin and the first instant

Asking = Callable[[int], Awaitable[Reply]]  # gets the place of a query
Watching = Callable[[Sample], None]


def _nobody(_: Sample) -> None:
    return


async def drive(plan: Plan, ask: Asking, timer: Timer, watch: Watching = _nobody) -> tuple[Sample, ...]:
    """Sends all of a plan, returns the samples that count, in the order of sending. `ask` must not raise.

    `watch` sees every sample as it comes, those of the warm-up too, whose numbers are below 0.
    """
    run = _closed if plan.pace.closed else _open
    return tuple(sorted(await run(plan, ask, timer, watch), key=lambda sample: sample.number))


async def _open(plan: Plan, ask: Asking, timer: Timer, watch: Watching) -> list[Sample]:
    early, counted = plan.warm_up_schedule(), plan.schedule()
    start = timer.now() + LEAD - (early[0] if early else 0.0)
    samples: list[Sample] = []

    async def send(number: int, query: int, scheduled: float) -> None:
        sent = timer.now()
        reply = await ask(query)
        sample = Sample.of(number, query, start, scheduled, sent, reply)
        if number >= 0:
            samples.append(sample)
        watch(sample)

    async with asyncio.TaskGroup() as under_way:
        for warm_up, first, schedule in ((True, -len(early), early), (False, 0, counted)):
            draws = plan.draws(warm_up=warm_up)
            for number, (instant, query) in enumerate(zip(schedule, draws, strict=False), first):
                await timer.until(start + instant)
                under_way.create_task(send(number, query, start + instant))
    return samples


async def _closed(plan: Plan, ask: Asking, timer: Timer, watch: Watching) -> list[Sample]:
    await _callers(plan, ask, timer, watch, warm_up=True)
    return await _callers(plan, ask, timer, watch, warm_up=False)


async def _callers(plan: Plan, ask: Asking, timer: Timer, watch: Watching, *, warm_up: bool) -> list[Sample]:
    assert plan.pace.callers is not None
    callers, interval = plan.pace.callers, plan.pace.interval or 0.0
    most = plan.warm_up_requests if warm_up else 0
    start = timer.now()
    end = inf if most else start + (plan.warm_up if warm_up else plan.seconds)
    draws = islice(enumerate(plan.draws(warm_up=warm_up)), most or None)
    samples: list[Sample] = []

    async def call(caller: int) -> None:
        due = start + interval * caller / callers
        while due < end and (drawn := next(draws, None)):
            number, query = drawn
            await timer.until(due)
            sent = timer.now()
            reply = await ask(query)
            sample = Sample.of(-1 - number if warm_up else number, query, start, due, sent, reply)
            samples.append(sample)
            watch(sample)
            due = max(due + interval, timer.now())

    async with asyncio.TaskGroup() as under_way:
        for caller in range(callers):
            under_way.create_task(call(caller))
    return samples
