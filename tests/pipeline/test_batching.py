"""Batches across callers: whoever is in line shares one, in time for all in it, and nobody waits for it to fill."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batching import BatchingLane, BatchingOptions, Place
from pipeline.errors import Overloaded
from tests.searching import until

BOUND = 10.0  # seconds: a test that waits longer has failed


class Model:
    """Computes on a clock of its own: `run` seconds a batch and `each` a padded unit. Texts are their own units."""

    def __init__(self, run: float = 0.0, each: float = 0.0) -> None:
        self.run, self.each = run, each
        self.seconds = 0.0
        self.batches: list[list[str]] = []
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def now(self) -> float:
        return self.seconds

    def __call__(self, batch: Sequence[str]) -> list[str]:
        self.batches.append(list(batch))
        self.begun.set()
        assert self.gate.wait(BOUND)
        self.seconds += self.run + self.each * len(batch) * max(len(text) for text in batch)
        return [text.upper() for text in batch]


def lane(model: Model, *, line: int = 32, bound: int = 16, foresight: bool = True) -> BatchingLane[str, str]:
    return BatchingLane(BatchingOptions("test", line, bound, foresight), model, len, now=model.now)


async def taught(lane: BatchingLane[str, str], model: Model) -> None:
    """Lets the lane see batches of several sizes, and forgets them."""
    for text in ["a", "bbbb", "cccccccc", "dd"] * 5:
        await answers(lane.join([text], inf))
        await until(lambda: lane.expected_wait() == 0)
    model.batches.clear()
    model.seconds = 0.0


async def answers(places: Sequence[Place[str, str]]) -> list[str]:
    return [await place.future for place in places]


async def held(lane: BatchingLane[str, str], model: Model) -> Place[str, str]:
    """A batch that is under way until the gate is opened."""
    model.gate.clear()
    model.begun.clear()
    (place,) = lane.join(["x"], inf)
    await until(model.begun.is_set)
    return place


async def test_a_lone_caller_does_not_wait_for_others() -> None:
    with lane(Model()) as open_lane:
        assert await answers(open_lane.join(["alone"], inf)) == ["ALONE"]


async def test_a_batch_is_handed_over_shortest_first_and_everybody_gets_its_own_result() -> None:
    model = Model()
    with lane(model) as open_lane:
        first = await held(open_lane, model)
        places = open_lane.join(["ccc", "a", "bb"], inf)
        model.gate.set()
        assert await answers([first, *places]) == ["X", "CCC", "A", "BB"]
    assert model.batches == [["x"], ["a", "bb", "ccc"]]


async def test_one_too_long_for_a_batch_is_passed_over_and_comes_next() -> None:
    model = Model()
    with lane(model, bound=8) as open_lane:
        first = await held(open_lane, model)
        places = [open_lane.join([text], deadline)[0] for text, deadline in (("a", 1.0), ("b" * 7, 2.0), ("c", 3.0))]
        model.gate.set()
        await answers([first, *places])
    assert model.batches == [["x"], ["a", "c"], ["b" * 7]]


async def test_a_batch_is_cut_so_that_the_first_deadline_in_it_is_kept() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        await taught(open_lane, model)
        first = await held(open_lane, model)
        urgent = open_lane.join(["aaaa"], 6.0)
        others = open_lane.join(["bbbb", "cccc"], 100.0)
        model.gate.set()
        await answers([first, *urgent, *others])
    assert model.batches == [["x"], ["aaaa"], ["bbbb", "cccc"]]


async def test_who_would_be_done_too_late_is_refused_on_joining_all_together_or_none() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        await taught(open_lane, model)
        first = await held(open_lane, model)
        waiting = open_lane.join(["aaaa", "bbbb"], 100.0)
        assert open_lane.expected_wait() == pytest.approx(9.0, rel=0.05)
        with pytest.raises(Overloaded, match="would be done with this in 13000 ms, and 12000 ms are left") as refused:
            open_lane.join(["cc", "dd"], 12.0, priority=1)
        assert refused.value.retry_after == pytest.approx(9.0, rel=0.05)
        assert open_lane.waiting == 2
        in_time = open_lane.join(["cc", "dd"], 14.0, priority=1)
        model.gate.set()
        await answers([first, *waiting, *in_time])


async def test_an_interactive_caller_is_not_refused_for_the_batch_callers_in_line() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        await taught(open_lane, model)
        first = await held(open_lane, model)
        patient = open_lane.join(["aaaa"] * 5, 100.0, priority=1)
        assert open_lane.expected_wait(priority=0) == pytest.approx(1.0, rel=0.05)
        places = open_lane.join(["bb"], 4.0)
        model.gate.set()
        await answers([first, *patient, *places])
    assert "bb" in model.batches[1]


async def test_who_ran_out_in_line_is_told_soon_and_never_computed() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        first = await held(open_lane, model)
        (late,) = open_lane.join(["late"], 5.0)
        waiting = open_lane.join(["good"], 100.0)
        model.seconds = 5.5
        model.gate.set()
        with pytest.raises(Overloaded, match="too late"):
            await late.future
        await answers([first, *waiting])
    assert model.batches == [["x"], ["good"]]


async def test_an_estimate_that_is_wrong_is_put_right_by_trying() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        await taught(open_lane, model)
        model.each = 0.001
        for _ in range(80):
            await answers(open_lane.join(["aaaa"], model.seconds + 0.01))
            await until(lambda: open_lane.expected_wait() == 0)
        first = await held(open_lane, model)
        places = open_lane.join(["bbbb"], model.seconds + 0.5)
        model.gate.set()
        await answers([first, *places])


async def test_what_only_a_wrong_estimate_calls_hopeless_is_tried_one_by_one() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        await taught(open_lane, model)
        first = await held(open_lane, model)
        model.each = 0.001
        places = [open_lane.join(["aaaa"], 6.0)[0]]
        model.seconds = 4.0
        model.gate.set()
        assert await answers([first, *places]) == ["X", "AAAA"]


async def test_an_item_that_several_want_is_served_for_the_first_and_worth_computing_for_the_last() -> None:
    model = Model(each=1.0)
    with lane(model) as open_lane:
        await taught(open_lane, model)
        first = await held(open_lane, model)
        (shared,) = open_lane.join(["shared"], 50.0, priority=1)
        (other,) = open_lane.join(["o"], 40.0)
        open_lane.hasten(shared, 10.0)
        assert (shared.priority, shared.deadline, shared.latest) == (0, 10.0, 50.0)
        model.seconds = 20.0
        model.gate.set()
        assert await answers([first, shared, other]) == ["X", "SHARED", "O"]


async def test_a_failing_batch_fails_its_callers_and_not_the_next() -> None:
    def work(batch: Sequence[str]) -> list[str]:
        if "bad" in batch:
            raise ValueError("cannot be read")
        return list(batch)

    with BatchingLane(BatchingOptions("test"), work, len) as open_lane:
        (bad,) = open_lane.join(["bad"], inf)
        with pytest.raises(ValueError, match="cannot be read"):
            await bad.future
        assert await answers(open_lane.join(["good"], inf)) == ["good"]


async def test_a_line_is_never_longer_than_its_bound() -> None:
    model = Model()
    with lane(model, line=3) as open_lane:
        first = await held(open_lane, model)
        places = open_lane.join(["a", "b"], inf)
        with pytest.raises(Overloaded, match="2 items in line, of 3 at most"):
            open_lane.join(["c", "d"], inf)
        assert open_lane.leave(places[0])
        assert not open_lane.leave(places[0])
        more = open_lane.join(["c", "d"], inf)
        model.gate.set()
        await answers([first, places[1], *more])
    with pytest.raises(Overloaded):
        open_lane.join(["e"], inf)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 2), st.floats(0.1, 60), st.booleans()), max_size=25),
    st.integers(1, 40),
)
def test_nobody_is_lost_batches_keep_their_bound_and_what_was_dropped_was_late(
    callers: list[tuple[int, int, float, bool]], bound: int
) -> None:
    async def story() -> None:
        model = Model(run=0.1, each=0.1)
        with lane(model, line=20, bound=bound) as open_lane:
            await taught(open_lane, model)
            first = await held(open_lane, model)
            places: list[Place[str, str]] = []
            for number, (size, priority, deadline, leaves) in enumerate(callers):
                try:
                    (place,) = open_lane.join([chr(97 + number) * size], deadline, priority)
                except Overloaded:
                    continue
                if leaves:
                    assert open_lane.leave(place)
                else:
                    places.append(place)
            assert open_lane.waiting == len(places) <= 20
            model.gate.set()
            ended = await asyncio.gather(first.future, *(place.future for place in places), return_exceptions=True)
        computed = [text for batch in model.batches for text in batch]
        assert sorted(computed) == sorted(end.lower() for end in ended if isinstance(end, str))
        assert all(isinstance(end, str | Overloaded) for end in ended)
        for batch in model.batches:
            assert len(batch) == 1 or len(batch) * max(len(text) for text in batch) <= bound
            assert batch == sorted(batch, key=len)

    asyncio.run(story())


class Stepped(Model):
    """A model whose batches end when the test says so, at the time that they take; `ended` tells each item's end."""

    def __init__(self, each: float) -> None:
        super().__init__(each=each)
        self.until = 0.0
        self.stepped = False
        self.ended: dict[str, float] = {}

    def __call__(self, batch: Sequence[str]) -> list[str]:
        self.until = self.seconds + self.each * len(batch) * max(len(text) for text in batch)
        self.begun.set()
        assert self.gate.wait(BOUND)
        if self.stepped:
            self.gate.clear()
        self.seconds = self.until
        self.ended |= dict.fromkeys(batch, self.seconds)
        return list(batch)


@pytest.mark.parametrize("foresight", [True, False])
async def test_at_twice_what_it_can_do_its_work_is_in_time_because_it_foresees(foresight: bool) -> None:
    """Arrivals at random on the model's own clock: each item takes .04 s, 50 come a second, each with .25 s."""
    arrivals = random.Random(11)
    model = Stepped(each=0.01)
    deadlines: dict[str, float] = {}
    coming = 0.0
    with lane(model, line=1000, bound=8, foresight=foresight) as open_lane:
        await taught(open_lane, model)
        model.ended.clear()
        model.begun.clear()
        model.gate.clear()
        model.stepped, under_way = True, False
        for number in range(1500):
            coming += arrivals.expovariate(50)
            while under_way and model.until <= coming:
                model.begun.clear()
                model.gate.set()
                await until(lambda: model.begun.is_set() or open_lane.expected_wait() == 0)
                under_way = model.begun.is_set()
            model.seconds = coming
            text = f"{number:04d}"
            try:
                open_lane.join([text], coming + 0.25)
            except Overloaded:
                continue
            deadlines[text] = coming + 0.25
            if not under_way:
                await until(model.begun.is_set)
                under_way = True
        model.stepped = False
        model.gate.set()
    in_time = sum(model.ended[text] <= deadlines[text] + 1e-9 for text in model.ended)
    could = coming * 25  # items, if it never rested
    if foresight:
        assert in_time > 0.95 * len(model.ended)
        assert in_time > 0.9 * could
    else:
        assert in_time < 0.1 * could
