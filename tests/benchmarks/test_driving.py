"""The loops that send, on virtual time: a stall is seen by the open loop, hidden by the closed one, and put back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.load.correcting import corrected
from benchmarks.load.driving import LEAD, drive
from benchmarks.load.figures import figures
from benchmarks.load.plan import Pace, Plan
from benchmarks.load.recording import Reply, Sample
from pipeline.errors import InvalidInput
from tests.recordings import PLAN, QUERIES, OneAtATime, driven, paced
from tests.virtual_time import LoopTimer, run_virtually

TEN_SECONDS = Plan(QUERIES, pace=Pace(20.0), seconds=10, warm_up=0)
STALL = {"stalls": 4.0, "until": 6.0}  # 2 of 10 s: a fifth of those who asked had to wait


def test_an_open_loop_shows_a_stall() -> None:
    run = figures(driven(TEN_SECONDS, OneAtATime(**STALL)))
    assert run.latency.p50 < 0.05
    assert run.latency.p95 > 1.0
    assert run.latency.highest > 1.7


def test_a_closed_loop_hides_it_and_the_correction_puts_it_back() -> None:
    naive = figures(driven(paced(TEN_SECONDS, 20.0, 1), OneAtATime(**STALL)))
    assert naive.latency.p99 < 0.02, "one request of some 160 waited, and none of those it kept from being sent"
    assert naive.corrected is not None
    assert naive.corrected.p95 > 1.0
    seen = figures(driven(TEN_SECONDS, OneAtATime(**STALL)))
    assert naive.corrected.p95 == pytest.approx(seen.latency.p95, rel=0.25)


def test_a_closed_loop_without_a_rate_is_left_uncorrected() -> None:
    run = figures(driven(paced(TEN_SECONDS, None, 2), OneAtATime(**STALL)))
    assert run.corrected is None
    assert run.latency.p99 < 0.05


def test_the_correction_adds_one_value_an_interval() -> None:
    assert corrected([0.01, 0.35], 0.1) == pytest.approx([0.01, 0.35, 0.25, 0.15])
    assert corrected([0.1], 0.1) == [0.1]


def test_latency_counts_from_the_scheduled_send_and_lateness_is_told() -> None:
    """A loop that was held up sends late, and says so, and whoever would have asked has waited all the same."""

    class LateTimer(LoopTimer):
        async def until(self, instant: float) -> None:
            await super().until(instant + 0.02)

    samples = run_virtually(drive(replace(TEN_SECONDS, pace=Pace(5.0)), OneAtATime().ask, LateTimer()))
    assert all(sample.late == pytest.approx(0.02) for sample in samples)
    assert min(sample.latency for sample in samples) == pytest.approx(0.03)


def test_an_open_loop_never_waits_for_an_answer() -> None:
    plan = replace(TEN_SECONDS, seconds=2)
    service = OneAtATime(takes=1.0)
    samples = driven(plan, service).samples
    assert [sample.scheduled for sample in samples] == pytest.approx(plan.schedule())
    assert all(sample.late == pytest.approx(0, abs=1e-9) for sample in samples)


def test_a_warm_up_is_sent_at_the_same_rate_and_not_counted() -> None:
    plan = replace(TEN_SECONDS, warm_up=4)
    service = OneAtATime()
    seen: list[Sample] = []
    samples = run_virtually(drive(plan, service.ask, LoopTimer(), seen.append))
    early = [sample for sample in seen if sample.number < 0]
    assert len(early) == len(plan.warm_up_schedule())
    assert len(service.asked) == len(early) + len(samples)
    assert [sample.number for sample in samples] == list(range(len(plan.schedule())))
    assert all(-4 - LEAD <= sample.scheduled < 0 for sample in early)


@pytest.mark.parametrize("pace", [Pace(20.0), Pace(None, 3), Pace(20.0, 3)])
def test_a_warm_up_may_be_a_number_of_requests(pace: Pace) -> None:
    service = OneAtATime()
    seen: list[Sample] = []
    plan = replace(TEN_SECONDS, seconds=2, warm_up_requests=7, pace=pace)
    run_virtually(drive(plan, service.ask, LoopTimer(), seen.append))
    assert sum(sample.number < 0 for sample in seen) == 7


def test_a_closed_loop_has_no_more_under_way_than_callers() -> None:
    under_way: list[int] = []
    now = [0]

    async def ask(_: int) -> Reply:
        now[0] += 1
        under_way.append(now[0])
        await asyncio.sleep(0.05)
        now[0] -= 1
        return Reply(200, LoopTimer().now())

    samples = run_virtually(drive(paced(TEN_SECONDS, None, 8), ask, LoopTimer()))
    assert max(under_way) == 8
    assert len(samples) == pytest.approx(8 * 10 / 0.05, rel=0.01)


def test_callers_with_a_rate_share_it() -> None:
    samples = driven(paced(TEN_SECONDS, 20.0, 4), OneAtATime(takes=0.001)).samples
    assert len(samples) == pytest.approx(200, abs=4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Plan(()),
        lambda: Plan(QUERIES, pace=Pace(None, None)),
        lambda: Plan(QUERIES, pace=Pace(-1.0)),
        lambda: Plan(QUERIES, pace=Pace(None, 0)),
        lambda: replace(PLAN, seconds=0),
        lambda: replace(PLAN, exponent=-1.0),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(wrong: Callable[[], Plan]) -> None:
    with pytest.raises(InvalidInput):
        wrong()
