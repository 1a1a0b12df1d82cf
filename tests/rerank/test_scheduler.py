"""The owner thread serves everybody a first run before anybody a second, and computes for nobody who has left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from math import inf

import pytest

from pipeline.clock import Lap, Stage
from pipeline.errors import Overloaded
from rerank.anytime import AnytimeOptions, Asked, Progress
from rerank.pairs import Pair
from rerank.scheduler import PairScheduler
from rerank.scorer import Stopper
from tests.fakes_scorer import FakeScorer, HandClock
from tests.fakes_shelf import shelf_of

# A pair has 3 special tokens, the query has 3 and a passage 4: 10 tokens, at 1 ms each 10 ms.
SHELF = shelf_of([4] * 60)
SCORES = {key: float(key) for key in range(60)}
OPTIONS = AnytimeOptions(window=4, run_tokens=40, reserve=0.0, least_passage=2)


class Held(FakeScorer):
    """Its first run goes on until somebody says `go`, so that a line can form behind it."""

    def __init__(self, clock: HandClock | None = None, **more: float) -> None:
        super().__init__(SCORES, clock, **more)
        self.go, self.reached = threading.Event(), threading.Event()

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        if not self.runs:
            self.reached.set()
            self.go.wait(10)
        return super().score(pairs, stopper)

    def about(self) -> list[list[int]]:
        """What each run was about."""
        return [[self.number(pair) for pair in run] for run in self.runs]


class Waiting(FakeScorer):
    """Every run goes on until it is stopped."""

    def __init__(self, **more: float) -> None:
        super().__init__(SCORES, HandClock(), **more)
        self.reached, self.stopped = threading.Event(), threading.Event()

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        self.runs.append(list(pairs))
        self.reached.set()
        while not stopper.stopped:
            threading.Event().wait(0.001)
        self.stopped.set()
        return None


Open = Callable[..., PairScheduler]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def line(opened: ExitStack) -> Open:
    def made(scorer: FakeScorer, options: AnytimeOptions = OPTIONS, **more: object) -> PairScheduler:
        now = scorer.clock or (lambda: 0.0)
        return opened.enter_context(PairScheduler(scorer, options, now=now, **more))  # type: ignore[arg-type]

    return made


def asked(first: int, count: int, until: float = inf) -> Asked:
    """Candidates `first`, `first + 1`, …, in that order."""
    return Asked("w x y", SHELF, dict(enumerate(range(first, first + count))), until)


def lap(deadline: float = inf, priority: int = 0) -> Lap:
    return Lap(Stage.RERANK, 0.0, deadline, priority)


async def settled(scheduler: PairScheduler, requests: int) -> None:
    """Waits until so many are in line."""
    while scheduler.waiting < requests:  # noqa: ASYNC110  the scheduler has no event for tests
        await asyncio.sleep(0)


async def happened(event: threading.Event) -> None:
    """Waits, on the loop, for what a thread tells."""
    while not event.is_set():  # noqa: ASYNC110  it is told by a thread
        await asyncio.sleep(0)


async def behind(
    scheduler: PairScheduler, scorer: Held, requests: Sequence[tuple[Asked, Lap]]
) -> list[asyncio.Task[None]]:
    """Lets requests join one by one while a first one, about key 0, is being scored; then lets that go on."""
    tasks = [asyncio.create_task(scheduler.score(asked(0, 1), Progress(), lap()))]
    await happened(scorer.reached)
    for number, (request, its_lap) in enumerate(requests, start=2):
        tasks.append(asyncio.create_task(scheduler.score(request, Progress(), its_lap)))
        await settled(scheduler, number)
    scorer.go.set()
    return tasks


async def test_everybody_has_a_first_run_before_anybody_has_a_second(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    tasks = await behind(line(scorer), scorer, [(asked(first, 3), lap()) for first in (10, 20, 30)])
    await asyncio.gather(*tasks)
    assert scorer.about() == [[0], [10], [20], [30], [11], [21], [31], [12], [22], [32]]


async def test_among_equals_the_earlier_deadline_is_served_first(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    requests = [(asked(10, 2), lap(3.0)), (asked(20, 2), lap(1.0)), (asked(30, 2), lap(2.0))]
    await asyncio.gather(*await behind(line(scorer), scorer, requests))
    assert scorer.about() == [[0], [20], [30], [10], [21], [31], [11]]


async def test_batch_traffic_comes_last_and_still_has_a_turn_now_and_then(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    requests = [(asked(20, 3), lap(priority=1)), (asked(40, 12), lap())]
    await asyncio.gather(*await behind(line(scorer), scorer, requests))
    order = [keys[0] for keys in scorer.about()]
    assert order.index(20) > order.index(44)
    assert order.index(20) < order.index(51)
    assert sorted(order) == [0, 20, 21, 22, *range(40, 52)]


async def test_who_left_while_in_line_is_not_computed_for(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    scheduler = line(scorer)
    staying = asyncio.create_task(scheduler.score(asked(0, 1), Progress(), lap()))
    await happened(scorer.reached)
    leaving = asyncio.create_task(scheduler.score(asked(10, 3), Progress(), lap()))
    await settled(scheduler, 2)
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving
    assert scheduler.waiting == 1
    scorer.go.set()
    await staying
    assert scorer.about() == [[0]]


async def test_who_ran_out_of_time_in_line_is_not_computed_for(line: Open) -> None:
    """The first run takes 10 ms, and then only 9 are left for a pair that takes 10."""
    scorer = Held(HandClock(), per_token=0.001)
    await asyncio.gather(*await behind(line(scorer), scorer, [(asked(10, 3, until=0.019), lap(0.019))]))
    assert scorer.about() == [[0]]


async def test_pairs_of_several_requests_share_a_run_where_that_saves_time(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001, per_run=0.1)
    requests = [(asked(10, 2), lap()), (asked(20, 1), lap())]
    progress = [Progress(), Progress()]
    scheduler = line(scorer)
    first = asyncio.create_task(scheduler.score(asked(0, 1), Progress(), lap()))
    await happened(scorer.reached)
    tasks = [
        asyncio.create_task(scheduler.score(request, into, its_lap))
        for (request, its_lap), into in zip(requests, progress, strict=True)
    ]
    await settled(scheduler, 3)
    scorer.go.set()
    await asyncio.gather(first, *tasks)
    assert scorer.about() == [[0], [10, 11, 20]]
    assert [into.scores() for into in progress] == [{0: 10.0, 1: 11.0}, {0: 20.0}]
    assert (scheduler.counts.pairs, scheduler.counts.runs) == (4, 2)


async def test_nobody_is_let_in_who_would_make_the_others_late(line: Open) -> None:
    """Alone the pair takes 110 ms and together with two more 130: the one who has 125 left is not made to wait."""
    scorer = Held(HandClock(), per_token=0.001, per_run=0.1)
    requests = [(asked(10, 1, until=0.235), lap(0.235)), (asked(20, 2), lap())]
    await asyncio.gather(*await behind(line(scorer), scorer, requests))
    assert scorer.about() == [[0], [10], [20, 21]]


async def test_a_shared_run_goes_on_until_the_last_who_wants_it_has_left(line: Open) -> None:
    scorer = Waiting(per_token=0.001, per_run=0.1)
    permit = threading.Semaphore(0)
    scheduler = line(scorer, permits=permit)
    tasks = [asyncio.create_task(scheduler.score(asked(first, 1), Progress(), lap())) for first in (10, 20)]
    await settled(scheduler, 2)
    permit.release()
    await happened(scorer.reached)
    assert len(scorer.runs[0]) == 2
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    assert not scorer.stopped.is_set()
    tasks[1].cancel()
    await asyncio.wait(tasks[1:])
    assert scorer.stopped.wait(10)
    permit.release()


async def test_a_run_that_is_overdue_is_terminated_and_its_caller_let_go(line: Open) -> None:
    scorer = Waiting(per_token=0.0001)
    scheduler = line(scorer)
    await scheduler.score(asked(10, 3, until=0.02), Progress(), lap(0.02))
    assert scorer.stopped.wait(10)
    assert scheduler.waiting == 0


async def test_nothing_runs_without_a_permit_and_waiting_for_one_is_waiting(line: Open) -> None:
    scorer = FakeScorer(SCORES, HandClock(), per_token=0.001)
    permit = threading.Semaphore(0)
    scheduler = line(scorer, permits=permit)
    waits = lap()
    task = asyncio.create_task(scheduler.score(asked(10, 2), Progress(), waits))
    await settled(scheduler, 1)
    assert scorer.runs == []
    scorer.clock.time = 0.5
    for _ in range(3):
        permit.release()
    await task
    assert waits.waited == pytest.approx(0.5)
    assert scorer.clock.time == pytest.approx(0.52)


async def test_the_time_in_which_others_are_scored_counts_as_waiting(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    laps = [lap(1.0), lap(2.0)]
    requests = [(asked(10, 2), laps[0]), (asked(20, 2), laps[1])]
    await asyncio.gather(*await behind(line(scorer), scorer, requests))
    assert [one.waited for one in laps] == pytest.approx([0.020, 0.030])


async def test_a_full_line_refuses_and_tells_when_there_will_be_room(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    scheduler = line(scorer, line=1)
    first = asyncio.create_task(scheduler.score(asked(0, 1, until=0.25), Progress(), lap(0.25)))
    await happened(scorer.reached)
    with pytest.raises(Overloaded, match="1 requests in line, of 1 at most") as refused:
        await scheduler.score(asked(10, 1), Progress(), lap())
    assert refused.value.retry_after == pytest.approx(0.25)
    scorer.go.set()
    await first
    await scheduler.score(asked(10, 1), Progress(), lap())


async def test_an_error_is_raised_for_its_caller_and_the_thread_lives_on(line: Open) -> None:
    scheduler = line(FakeScorer(SCORES))
    with pytest.raises(KeyError):
        await scheduler.score(Asked("w x y", SHELF, {0: 999}, inf), Progress(), lap())
    progress = Progress()
    await scheduler.score(asked(10, 1), progress, lap())
    assert progress.scores() == {0: 10.0}


async def test_a_newcomer_waits_for_those_whose_turn_comes_first(line: Open) -> None:
    scorer = Held(HandClock(), per_token=0.001)
    scheduler = line(scorer)
    assert scheduler.expected_wait() == 0.0
    await asyncio.gather(*await behind(scheduler, scorer, [(asked(10, 2), lap())]))
    scorer.go.clear()
    scorer.runs.clear()
    scorer.reached.clear()
    tasks = [asyncio.create_task(scheduler.score(asked(first, 2), Progress(), lap(1.0))) for first in (10, 20, 30)]
    await happened(scorer.reached)
    await settled(scheduler, 3)
    assert scheduler.expected_wait(deadline=0.5) == pytest.approx(0.010)
    assert scheduler.expected_wait(deadline=2.0) == pytest.approx(0.040)
    assert scheduler.expected_wait(priority=1, deadline=0.5) == pytest.approx(0.040)
    scorer.go.set()
    await asyncio.gather(*tasks)


async def test_when_nobody_is_in_line_there_is_time_for_other_things() -> None:
    idle = threading.Event()
    with PairScheduler(FakeScorer(SCORES), OPTIONS, idle=idle.set):
        assert idle.wait(10)


def test_a_thread_without_work_ends_when_it_is_closed() -> None:
    with PairScheduler(FakeScorer(SCORES), OPTIONS) as scheduler:
        pass
    assert scheduler.waiting == 0
