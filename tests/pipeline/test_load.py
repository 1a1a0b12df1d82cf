"""Less is spent before anybody is refused, step by step, batch traffic first; it is over when the lines are short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clock import Stage
from pipeline.errors import Overloaded
from pipeline.load import BATCH, INTERACTIVE, Load, LoadOptions, Smoothed, Step
from pipeline.passages import Leg
from pipeline.profile import Profile, Rerank

PROFILE = Profile(rerank=Rerank(depth=40), deadline=1.0)


class Wait:
    """A line whose wait a test sets, the same for everybody."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        return self.seconds


class Service:
    """A load over one line of each stage, on a clock of its own."""

    def __init__(self, options: LoadOptions | None = None, *, reranks: bool = True) -> None:
        self.seconds = 0.0
        self.lag = 0.0
        self.lines: Mapping[Stage, Wait] = {
            stage: Wait() for stage in (Stage.ENCODE, Stage.DENSE, Stage.LEXICAL, Stage.RERANK, Stage.DUPLICATES)
        }
        self.load = Load(
            options or LoadOptions(),
            self.lines,
            PROFILE,
            reranks=reranks,
            lag=lambda: self.lag,
            now=lambda: self.seconds,
        )

    def lasting(self, seconds: float, *, priority: int = INTERACTIVE, times: int = 100) -> tuple[int, tuple[Leg, ...]]:
        """Depth and legs of the last of many requests a second, all of which would wait so long for the encoder."""
        self.lines[Stage.ENCODE].seconds = seconds
        for _ in range(times):
            self.seconds += 0.01
            eased = self.load.eased(PROFILE, 1.0, priority)
        return eased.profile.rerank.depth, eased.profile.search.legs


BOTH, LEXICAL = (Leg.LEXICAL, Leg.DENSE), (Leg.LEXICAL,)


@pytest.mark.parametrize(
    ("wait", "depth", "legs"),
    [(0.0, 40, BOTH), (0.19, 40, BOTH), (0.25, 20, BOTH), (0.35, 10, BOTH), (0.5, 0, BOTH), (0.7, 0, LEXICAL)],
)
def test_fewer_pairs_then_none_then_the_lexical_leg_alone(wait: float, depth: int, legs: tuple[Leg, ...]) -> None:
    assert Service().lasting(wait) == (depth, legs)
    assert Service().lasting(wait / 2, priority=BATCH) == (depth, legs)


def test_only_who_would_spend_all_its_time_waiting_is_refused_and_told_when_to_come_back() -> None:
    service = Service()
    service.lasting(0.99)
    with pytest.raises(Overloaded, match="would wait 1500 ms in line, and 1000 ms are left") as refused:
        service.lasting(1.5)
    assert refused.value.retry_after == 1.5


def test_what_was_given_up_is_told_with_its_numbers() -> None:
    service = Service()
    service.lines[Stage.ENCODE].seconds = 0.7
    for _ in range(100):
        service.seconds += 0.01
        eased = service.load.eased(PROFILE, 1.0, INTERACTIVE)
    assert [(each.stage, each.reason) for each in eased.degraded] == [(Stage.RERANK, "load"), (Stage.DENSE, "load")]
    assert (
        eased.degraded[0].detail == "0 of 40 at most, as a request would wait 70% of its deadline in line, from 60% on"
    )


def test_a_burst_gives_up_nothing_and_nothing_is_given_up_once_the_lines_are_short() -> None:
    service = Service()
    service.lasting(0.0)
    assert service.lasting(0.9, times=1) == (40, BOTH)
    assert service.lasting(0.9, times=100) == (0, LEXICAL)
    assert service.lasting(0.0, times=1) == (40, BOTH)


def test_after_the_overload_everything_is_as_it_was() -> None:
    service = Service()
    with pytest.raises(Overloaded):
        service.lasting(5.0)
    service.seconds += 1.0
    assert service.lasting(0.0, times=1) == (40, BOTH)
    assert service.lasting(0.1, times=300) == (40, BOTH)
    assert service.load.level() is Step.FULL


def test_the_event_loop_counts_and_so_do_all_lines_on_the_way() -> None:
    service = Service()
    for stage, seconds in ((Stage.ENCODE, 0.1), (Stage.DENSE, 0.2), (Stage.LEXICAL, 0.25), (Stage.RERANK, 0.1)):
        service.lines[stage].seconds = seconds
    service.lag = 0.05
    for _ in range(100):
        service.seconds += 0.01
        service.load.eased(PROFILE, 1.0, INTERACTIVE)
    assert service.load.number() == pytest.approx(0.05 + 0.3 + 0.1, rel=0.01)
    figures = {figure.name: figure.read() for figure in service.load.figures()}
    assert figures["load_level"] == Step.NO_RERANK
    assert figures["load"] == pytest.approx(0.45, rel=0.01)


def test_where_nothing_is_reranked_nothing_is_told_of_it() -> None:
    service = Service(reranks=False)
    assert service.lasting(0.5) == (40, BOTH)
    assert service.load.eased(PROFILE, 1.0, INTERACTIVE).degraded == ()


def test_who_asked_for_one_leg_keeps_it() -> None:
    service = Service()
    service.lasting(0.7)
    dense = replace(PROFILE, search=replace(PROFILE.search, legs=(Leg.DENSE,)))
    assert service.load.eased(dense, 1.0, INTERACTIVE).profile.search.legs == (Leg.DENSE,)


def test_steps_are_counted() -> None:
    service = Service()
    service.lasting(0.25)
    with pytest.raises(Overloaded):
        service.lasting(9.0)
    (tally,) = service.load.tallies()
    counts = tally.read()
    assert counts["half_rerank"] > 50
    assert counts["refused"] == 1
    assert set(counts) == {"half_rerank", "quarter_rerank", "no_rerank", "lexical_only", "refused"}


def test_places_inside_are_bounded_and_half_of_them_are_for_batch_traffic() -> None:
    load = Service(LoadOptions(inside=4)).load
    with load.stay(BATCH) as first, load.stay(BATCH) as second:
        first()
        second()
        with (
            pytest.raises(Overloaded, match="2 requests are being answered, and 2 are at most") as refused,
            load.stay(1),
        ):
            pass
        assert refused.value.retry_after is not None
        with load.stay(0) as third:
            third()
    with load.stay(BATCH) as again:
        again()


def test_a_request_takes_a_place_when_all_of_it_is_there_and_only_once() -> None:
    load = Service(LoadOptions(inside=1)).load
    with load.stay(0) as slow:
        with load.stay(0) as quick:
            quick()
            quick()
            with pytest.raises(Overloaded):
                slow()
        slow()
        with pytest.raises(Overloaded), load.stay(0):
            pass
    with load.stay(0):
        pass


def test_a_stage_whose_line_is_longer_than_what_is_left_refuses_at_once() -> None:
    service = Service()
    generation = Wait()
    load = Load(LoadOptions(), {Stage.FIRST_TOKEN: generation}, PROFILE, now=lambda: service.seconds)
    generation.seconds = 40.0
    load.refuse_late(Stage.FIRST_TOKEN, 60.0, 0)
    load.refuse_late(Stage.DENSE, 0.0, 0)
    with pytest.raises(Overloaded, match=r"takes 40\.0 s, and 30\.0 s are left") as refused:
        load.refuse_late(Stage.FIRST_TOKEN, 30.0, 0)
    assert refused.value.retry_after == 10.0


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 5)), min_size=1, max_size=50))
def test_a_smoothed_value_stays_within_what_it_saw(samples: list[tuple[float, float]]) -> None:
    smoothed, now = Smoothed(0.1, 1.0), 0.0
    for sample, passed in samples:
        now += passed
        value = smoothed.learn(sample, now)
        assert 0 <= value <= max(sample for sample, _ in samples) + 1e-9
