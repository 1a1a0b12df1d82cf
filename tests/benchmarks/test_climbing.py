"""The highest rate that holds, searched for on virtual time and on runs made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.load.climbing import Climb, ClimbingOptions, climb
from benchmarks.load.driving import drive
from benchmarks.load.plan import Ask, Pace, Plan
from benchmarks.load.recording import Recording
from pipeline.errors import InvalidInput
from tests.recordings import PLAN, OneAtATime, paced, recorded
from tests.virtual_time import LoopTimer, run_virtually

START = replace(PLAN, pace=Pace(4.0), ask=Ask(deadline_ms=250), seconds=30)


def climbed(plan: Plan, takes: float = 0.02) -> Climb:
    async def run(of: Plan) -> Recording:
        return Recording(of, await drive(of, OneAtATime(takes=takes).ask, LoopTimer()))

    return run_virtually(climb(plan, run, ClimbingOptions()))


@pytest.mark.parametrize("start", [1.0, 4.0, 100.0])
def test_the_highest_rate_is_found_from_below_and_from_above(start: float) -> None:
    """20 ms each, one at a time, Poisson arrivals: 50/s is all there is, and the queue's p99 passes 250 ms before."""
    found = climbed(paced(START, start))
    assert 25 < found.sustained < 50
    failed = min(step.rate for step in found.steps if not step.held)
    assert failed / found.sustained <= 1.1
    assert found.recording.plan.pace.rate == found.sustained
    assert not found.limited_by_generator


def test_a_service_that_holds_no_rate_has_none() -> None:
    found = climbed(START, takes=0.3)
    assert found.sustained == 0
    assert all(not step.held for step in found.steps)


def test_a_generator_that_is_late_is_asked_once_more_and_then_told() -> None:
    runs: list[float] = []

    async def run(of: Plan) -> Recording:
        assert of.pace.rate is not None
        runs.append(of.pace.rate)
        late = 0.02 if of.pace.rate > 10 else 0.0
        return recorded(of, change=lambda it: replace(it, late=late))

    found = run_virtually(climb(replace(START, seconds=20), run, ClimbingOptions()))
    assert found.limited_by_generator
    assert 8 <= found.sustained <= 10
    assert runs[:4] == [4.0, 8.0, 16.0, 16.0]


@pytest.mark.parametrize("plan", [paced(START, 20.0, 8), replace(START, ask=Ask(deadline_ms=None))])
def test_what_has_no_highest_rate_is_refused(plan: Plan) -> None:
    with pytest.raises(InvalidInput, match="open loop with a deadline"):
        climbed(plan)
