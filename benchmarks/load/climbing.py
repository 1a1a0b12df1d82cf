"""The highest rate that a service sustains: p99 within the deadline, and almost nothing spoiled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from benchmarks.load.figures import Figures, figures
from benchmarks.load.plan import Plan
from benchmarks.load.recording import Recording
from pipeline.errors import InvalidInput

Runner = Callable[[Plan], Awaitable[Recording]]


@dataclass(frozen=True, slots=True)
class ClimbingOptions:
    """`spoiled` is the share of requests that may be refused, unanswered or degraded for want of time. The search ends
    when the rate that held and the one that did not are within a factor of `closeness`, or after `steps` runs."""

    spoiled: float = 0.01
    closeness: float = 1.1
    lowest: float = 0.25
    steps: int = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One run at one rate."""

    rate: float
    held: bool
    figures: Figures

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {"rate": round(self.rate, 3), "held": self.held, **self.figures.to_json()}


@dataclass(frozen=True, slots=True)
class Climb:
    """`sustained` is the highest rate that held, 0 where none did; `recording` is that run's, else the last one's.

    `limited_by_generator` tells that the generator was late at a higher rate, so that the service may sustain more.
    """

    sustained: float
    steps: tuple[Step, ...]
    recording: Recording
    limited_by_generator: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "sustained": round(self.sustained, 3),
            "limited_by_generator": self.limited_by_generator,
            "steps": [step.to_json() for step in self.steps],
        }


async def climb(
    plan: Plan, run: Runner, options: ClimbingOptions, watch: Callable[[Step], None] | None = None
) -> Climb:
    """Doubles or halves the plan's rate until one holds and the next does not, then halves the distance between them.

    Raises InvalidInput for a plan without a deadline or with a closed loop: neither has such a rate.
    """
    if plan.pace.closed or plan.pace.rate is None or plan.ask.deadline_ms is None:
        raise InvalidInput("The highest rate is one of an open loop with a deadline: give --rate and --deadline-ms.")
    steps: list[Step] = []
    best: Recording | None = None
    last: Recording | None = None
    low, high, rate = 0.0, 0.0, plan.pace.rate
    while len(steps) < options.steps:
        at_rate = replace(plan, pace=replace(plan.pace, rate=rate))
        last = await run(at_rate)
        if figures(last).void:  # a machine may be busy once; twice it is too small
            last = await run(at_rate)
        step = Step(rate, holds(figures(last), plan, options), figures(last))
        steps.append(step)
        if watch:
            watch(step)
        if step.held:
            low, best = rate, last
        else:
            high = rate
        if low and high and high / low <= options.closeness:
            break
        rate = sqrt(low * high) if low and high else low * 2 if low else high / 2
        if rate < options.lowest:
            break
    assert last is not None
    limited = any(step.figures.void and step.rate > low for step in steps)
    return Climb(low, tuple(steps), best or last, limited)


def holds(run: Figures, plan: Plan, options: ClimbingOptions) -> bool:
    """Whether a run kept the deadline in 99 of 100 answers, spoiled few enough, and says something of the service."""
    assert plan.ask.deadline_ms is not None
    in_time = run.promised.count > 0 and run.promised.p99 <= plan.ask.deadline_ms / 1000
    return in_time and run.spoiled < options.spoiled and not run.void
