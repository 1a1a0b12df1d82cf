"""A late reranker costs quality, not time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import inf

import pytest

from pipeline.clock import Budget, Clock, Lap, Stage
from pipeline.passages import Degraded, Ranking
from rerank.anytime import AnytimeOptions
from rerank.cross_encoder import CrossEncoderReranker
from rerank.scheduler import PairScheduler
from rerank.scorer import KnownScores
from rerank.shapes import Shape
from tests.fakes_scorer import FakeScorer, HandClock
from tests.fakes_shelf import FakeShelf, asked, candidates_on, make_passage, shelf_of

# 4 words each and a query of 3 make pairs of 10 tokens, at 1 ms a token 10 ms.
SHELF = shelf_of([4] * 12)
KEYS = range(12)
BACKWARDS = {key: float(key) for key in KEYS}
OPTIONS = AnytimeOptions(window=4, run_tokens=20, reserve=0.0, least_passage=2)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


Make = Callable[..., CrossEncoderReranker]


@pytest.fixture
def make(opened: ExitStack) -> Make:
    """A reranker on a thread of its own, whose clock is the scorer's where that has one."""

    def made(
        scorer: FakeScorer, options: AnytimeOptions = OPTIONS, *, known: KnownScores | None = None, line: int = 64
    ):
        now = scorer.clock or time.perf_counter
        scheduler = opened.enter_context(PairScheduler(scorer, options, line=line, now=now))
        return CrossEncoderReranker(scheduler, known)

    return made


def untouched(scorer: FakeScorer) -> CrossEncoderReranker:
    """A reranker whose line nobody may join."""
    return CrossEncoderReranker(Untouched(scorer, OPTIONS, now=scorer.clock or time.perf_counter))


def order(ranking: Ranking) -> list[int]:
    return [ranked.candidate.key for ranked in ranking.items]


def scored(ranking: Ranking) -> int:
    return sum(ranked.rerank_score is not None for ranked in ranking.items)


async def test_with_time_enough_all_are_scored_and_nothing_is_given_up(make: Make) -> None:
    reranker = make(FakeScorer(BACKWARDS))
    ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget()))
    assert scored(ranking) == 12
    assert order(ranking)[:2] == [11, 10]
    assert ranking.degraded == ()


async def test_a_late_reranker_costs_quality_not_time(make: Make) -> None:
    now = HandClock()
    scorer = FakeScorer(BACKWARDS, now, per_token=0.001)
    reranker = make(scorer)
    clock = Clock(Budget(shares={Stage.RERANK: 0.075}), now=now)
    ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), clock)
    assert now.time <= 0.075
    assert scored(ranking) == 7
    assert sorted(order(ranking)[:7]) == list(range(7))
    assert order(ranking)[7:] == list(range(7, 12))
    assert ranking.degraded == (Degraded(Stage.RERANK, "out_of_time", "scored 7 of 12"),)
    assert not clock.timings[0].cut


async def test_a_model_that_becomes_slow_is_ended_and_what_it_had_scored_counts(make: Make) -> None:
    now = HandClock()
    scorer = FakeScorer(BACKWARDS, now, per_token=0.001, slower=lambda run: 3.0 if run > 1 else 1.0, ended_at=0.125)
    clock = Clock(Budget(shares={Stage.RERANK: 0.125}), now=now)
    ranking = await make(scorer).rerank(asked("w x y"), candidates_on(SHELF, KEYS), clock)
    assert now.time <= 0.125
    assert scored(ranking) == 4
    assert ranking.degraded[0].reason == "out_of_time"


async def test_the_reserve_is_left_over(make: Make) -> None:
    now = HandClock()
    options = AnytimeOptions(window=4, run_tokens=10, reserve=0.03)
    scorer = FakeScorer(BACKWARDS, now, per_token=0.001, max_tokens=64)
    ranking = await make(scorer, options).rerank(
        asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget(total=0.075), now=now)
    )
    assert now.time <= 0.075 - 0.03
    assert scored(ranking) == 4


async def test_less_time_than_one_pair_takes_begins_nothing(make: Make) -> None:
    now = HandClock()
    scorer = FakeScorer(BACKWARDS, now, per_token=0.001)
    clock = Clock(Budget(shares={Stage.RERANK: 0.004}), now=now)
    ranking = await untouched(scorer).rerank(asked(), candidates_on(SHELF, KEYS), clock)
    assert order(ranking) == list(KEYS)
    assert ranking.degraded == (Degraded(Stage.RERANK, "out_of_time", "scored 0 of 12"),)
    assert scorer.encoded == []


async def test_no_time_at_all_begins_nothing(make: Make) -> None:
    reranker = untouched(FakeScorer(BACKWARDS))
    ranking = await reranker.rerank(asked(), candidates_on(SHELF, KEYS), Clock(Budget(total=0.0)))
    assert ranking.degraded == (Degraded(Stage.RERANK, "out_of_time", "scored 0 of 12"),)


class Untouched(PairScheduler):
    """A line in which work is a mistake."""

    async def score(self, asked: object, progress: object, lap: object) -> None:
        raise AssertionError("work was begun")


async def test_a_reranker_that_was_refused_for_long_tries_again(make: Make) -> None:
    now = HandClock()
    scorer = FakeScorer(BACKWARDS, now, per_token=0.00001)
    for _ in range(60):
        scorer.cost.learn(Shape(1, 100), 100.0)
    reranker = make(scorer)
    for _ in range(2000):
        clock = Clock(Budget(shares={Stage.RERANK: 0.05}), now=now)
        ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), clock)
        if scored(ranking):
            return
    pytest.fail("it never came back")


async def test_a_cold_model_is_tried_with_one_pair(make: Make) -> None:
    now = HandClock()
    scorer = FakeScorer(BACKWARDS, now, per_token=0.001, warm=False)
    clock = Clock(Budget(shares={Stage.RERANK: 0.065}), now=now)
    ranking = await make(scorer).rerank(asked("w x y"), candidates_on(SHELF, KEYS), clock)
    assert len(scorer.runs[0]) == 1
    assert now.time <= 0.065
    assert scored(ranking) == 6


async def test_a_full_line_costs_the_reranking_and_is_told(make: Make) -> None:
    reranker = make(FakeScorer(BACKWARDS), line=0)
    ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget()))
    assert order(ranking) == list(KEYS)
    assert ranking.degraded == (Degraded(Stage.RERANK, "overloaded", "scored 0 of 12"),)


async def test_a_model_that_fails_keeps_what_it_had_scored_and_is_logged(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    reranker = make(FakeScorer(BACKWARDS, fail_after=2))
    with caplog.at_level(logging.WARNING, "rerank"):
        ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget()))
    assert ranking.degraded == (Degraded(Stage.RERANK, "failed", "scored 4 of 12: the graph fell over"),)
    assert sorted(order(ranking)[:4]) == [0, 1, 2, 3]
    assert "the graph fell over" in caplog.text


async def test_a_query_longer_than_the_model_reads_is_not_cut_but_told(make: Make) -> None:
    scorer = FakeScorer(BACKWARDS, max_tokens=64)
    reranker = make(scorer)
    ranking = await reranker.rerank(asked("word " * 62), candidates_on(SHELF, KEYS), Clock(Budget()))
    assert order(ranking) == list(KEYS)
    assert "the query takes 62 of the reranker's 64 tokens" in ranking.degraded[0].detail
    assert scorer.runs == []


async def test_only_the_depth_asked_for_is_scored(make: Make) -> None:
    reranker = make(FakeScorer(BACKWARDS))
    ranking = await reranker.rerank(asked("w x y", depth=5), candidates_on(SHELF, KEYS), Clock(Budget()))
    assert scored(ranking) == 5
    assert order(ranking)[5:] == list(range(5, 12))
    assert ranking.degraded == ()


async def test_depth_0_is_off_as_asked_and_takes_no_lap() -> None:
    clock = Clock(Budget())
    reranker = untouched(FakeScorer(BACKWARDS))
    ranking = await reranker.rerank(asked(depth=0), candidates_on(SHELF, KEYS), clock)
    assert order(ranking) == list(KEYS)
    assert (ranking.degraded, clock.timings) == ((), ())


async def test_what_was_scored_before_the_lap_was_cut_counts(make: Make) -> None:
    """The second run does not return until it is terminated: the caller is let go and has the first run's scores."""
    reranker = make(StuckScorer(BACKWARDS, stuck_at=2))
    clock = Clock(Budget(shares={Stage.RERANK: 0.2}))
    ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), clock)
    assert scored(ranking) == 2
    assert ranking.degraded == (Degraded(Stage.RERANK, "out_of_time", "scored 2 of 12"),)


async def test_a_caller_who_leaves_ends_the_run_on_the_thread() -> None:
    scorer = StuckScorer(BACKWARDS, stuck_at=1)
    with PairScheduler(scorer, OPTIONS) as line:
        reranker = CrossEncoderReranker(line)
        leaving = asyncio.create_task(
            reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget(total=inf)))
        )
        await scorer.stuck.wait()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    assert line.waiting == 0
    assert scorer.terminated


class StuckScorer(FakeScorer):
    """Its run number `stuck_at` ends only by being stopped."""

    def __init__(self, scores: dict[int, float], *, stuck_at: int) -> None:
        super().__init__(scores)
        self.stuck_at, self.stuck, self.terminated = stuck_at, asyncio.Event(), False
        self.loop = asyncio.get_running_loop()
        self.calls = 0

    def score(self, pairs, stopper):  # type: ignore[no-untyped-def]
        self.calls += 1
        if self.calls < self.stuck_at:
            return super().score(pairs, stopper)
        self.loop.call_soon_threadsafe(self.stuck.set)
        while not stopper.stopped:
            time.sleep(0.001)
        self.terminated = True
        return None


async def test_ids_of_another_tokenizer_are_not_used_and_text_is_tokenised_once(make: Make) -> None:
    passages = [make_passage(f"d{number}", 0, f"p{number} a text") for number in range(3)]
    shelf = FakeShelf(passages, tokenizer="another")
    scorer = FakeScorer(BACKWARDS)
    reranker = make(scorer)
    for _ in range(2):
        await reranker.rerank(asked("w x y"), candidates_on(shelf, range(3)), Clock(Budget()))
    assert scorer.encoded == ["w x y", "p0 a text", "p1 a text", "p2 a text", "w x y"]


async def test_ids_of_the_same_tokenizer_are_looked_up(make: Make) -> None:
    shelf = shelf_of([4] * 3)
    scorer = FakeScorer(BACKWARDS)
    await make(scorer).rerank(asked("w x y"), candidates_on(shelf, range(3)), Clock(Budget()))
    assert scorer.encoded == ["w x y"]
    assert shelf.read == []


class Remembering:
    """Known scores in a dictionary; `asked` is what it was asked for, `kept` what it was given."""

    def __init__(self, known: dict[str, float] | None = None) -> None:
        self.known, self.asked, self.kept = known or {}, 0, dict[str, float]()

    async def look_up(self, query: str, hashes: Sequence[str], lap: Lap) -> Mapping[int, float]:
        assert query == "w x y"
        assert lap.stage is Stage.RERANK
        self.asked += len(hashes)
        return {place: self.known[name] for place, name in enumerate(hashes) if name in self.known}

    def keep(self, query: str, scores: Mapping[str, float]) -> None:
        assert query == "w x y"
        self.kept |= scores


def hashes(*keys: int) -> list[str]:
    return list(SHELF.content_hashes(keys))


async def test_what_is_known_is_not_scored_again_and_what_is_new_is_kept(make: Make) -> None:
    scorer, known = FakeScorer(BACKWARDS), Remembering(dict.fromkeys(hashes(0, 2, 11), 50.0))
    ranking = await make(scorer, known=known).rerank(asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget()))
    assert ranking.degraded == ()
    assert scored(ranking) == 12
    assert {scorer.number(pair) for run in scorer.runs for pair in run} == set(KEYS) - {0, 2, 11}
    assert known.kept == {name: float(key) for key in KEYS if key not in {0, 2, 11} for name in hashes(key)}
    assert order(ranking)[0] == 0


async def test_known_scores_cost_no_time_and_are_told_apart(make: Make) -> None:
    now = HandClock()
    scorer, known = FakeScorer(BACKWARDS, now, per_token=0.001), Remembering(dict.fromkeys(hashes(0, 1, 2), 1.0))
    clock = Clock(Budget(shares={Stage.RERANK: 0.045}), now=now)
    ranking = await make(scorer, known=known).rerank(asked("w x y"), candidates_on(SHELF, KEYS), clock)
    assert ranking.degraded == (Degraded(Stage.RERANK, "out_of_time", "scored 7 of 12 (3 known before)"),)
    assert sorted(order(ranking)[:7]) == list(range(7))
    assert len(known.kept) == 4


async def test_when_all_is_known_nobody_stands_in_line() -> None:
    known = Remembering(dict.fromkeys(hashes(*KEYS), 1.0))
    line = Untouched(FakeScorer(BACKWARDS), OPTIONS)
    ranking = await CrossEncoderReranker(line, known).rerank(
        asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget(shares={Stage.RERANK: 0.2}))
    )
    assert (scored(ranking), ranking.degraded, known.kept) == (12, (), {})


async def test_only_the_depth_asked_for_is_looked_up(make: Make) -> None:
    known = Remembering()
    await make(FakeScorer(BACKWARDS), known=known).rerank(
        asked("w x y", depth=5), candidates_on(SHELF, KEYS), Clock(Budget())
    )
    assert known.asked == 5


async def test_what_was_scored_for_someone_who_left_is_kept() -> None:
    scorer, known = StuckScorer(BACKWARDS, stuck_at=2), Remembering()
    with PairScheduler(scorer, OPTIONS) as line:
        reranker = CrossEncoderReranker(line, known)
        leaving = asyncio.create_task(reranker.rerank(asked("w x y"), candidates_on(SHELF, KEYS), Clock(Budget())))
        await scorer.stuck.wait()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    assert known.kept == {hashes(0)[0]: 0.0, hashes(1)[0]: 1.0}


async def test_a_passage_too_long_for_the_time_left_is_passed_over(make: Make) -> None:
    now = HandClock()
    scorer = FakeScorer(BACKWARDS, now, per_token=0.001)
    shelf = shelf_of([4, 40, 4, 40, 4])
    ranking = await make(scorer).rerank(
        asked("w x y"), candidates_on(shelf, range(5)), Clock(Budget(shares={Stage.RERANK: 0.033}), now=now)
    )
    assert [ranked.rerank_score for ranked in ranking.items if ranked.rerank_score is None] == [None, None]
    assert {ranked.candidate.key for ranked in ranking.items if ranked.rerank_score is not None} == {0, 2, 4}
    assert now.time == pytest.approx(0.03)
