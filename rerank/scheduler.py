"""The thread that owns the model: it scores pairs for all requests in line, run by run, and waits for nobody.

Whose turn it is: the lower priority first; then who had fewer runs; then the earlier deadline. Every request can use
up all the time there is, so by deadline alone the first in line would be given everything and the others nothing;
this way everybody's best candidates are scored before anybody's second best, and more load means fewer pairs for each.
One turn in `FAIR` goes to the last priority first.

The clock is looked at before each run. A run is terminated once nobody waits for it any more: each caller left, or is
out of time. (A little longer than a module should be: all of it holds one lock.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import inf

from pipeline.clock import Lap
from pipeline.errors import Overloaded
from pipeline.expecting import Typical
from pipeline.line import FAIR
from rerank.anytime import AnytimeOptions, Asked, Plan, Progress
from rerank.jobs import Job, Run
from rerank.passage_tokens import PassageTokens
from rerank.scorer import PairScorer
from rerank.shapes import Shape, worth_sharing

LEAST_RETRY = 0.001


@dataclass(slots=True)
class Counts:
    """Since the start: pairs scored, and runs, those included that were terminated or shared by several requests."""

    pairs: int = 0
    runs: int = 0
    terminated: int = 0
    shared: int = 0

    def by_outcome(self) -> dict[str, float]:
        """Runs for the metrics: each is one of the three."""
        alone = self.runs - self.terminated - self.shared
        return {"alone": alone, "shared": self.shared, "terminated": self.terminated}


class PairScheduler:
    """Opened with `with`. `line` requests at most are in it, those being scored included; beyond that, Overloaded.

    `permits` bounds native calls over all lanes of the process. `idle` is called from the thread when nobody is in
    line, for what must not delay a run. `now` is the scale of the laps' deadlines.
    """

    def __init__(
        self,
        scorer: PairScorer,
        options: AnytimeOptions,
        *,
        line: int = 64,
        permits: AbstractContextManager[object] | None = None,
        idle: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.scorer = scorer
        self.options = options
        self.counts = Counts()
        self._most = line
        self._permits = permits if permits is not None else nullcontext()
        self._idle = idle
        self.now = now
        self._passages = PassageTokens(scorer.tokenizer, scorer.token_ids)
        self._line: list[Job] = []
        self._joined = self._turn = 0
        self._running: Run | None = None
        self._typical = Typical()
        self._closed = False
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PairScheduler:
        self._thread = threading.Thread(target=self._serve, name="rerank", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Refuses newcomers, serves those in line, and joins the thread."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Requests in line, those being scored included."""
        return len(self._line)

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds until a newcomer's first run: those ahead of it have theirs, and the one under way ends."""
        newcomer = (priority, 0, deadline, self._joined + 1)
        with self._news:
            ahead = sum(job.standing() < newcomer for job in self._line)
            return (ahead + (self._running is not None)) * self._typical.seconds

    async def score(self, asked: Asked, progress: Progress, lap: Lap) -> None:
        """Scores what fits until `asked.until` into `progress`, and returns then at the latest.

        Raises Overloaded when the line is full and ScoringFailed with what came before kept. What of the lap was not
        spent in runs of the model is added to `lap.waited`.
        """
        job = self._join(asked, progress, lap)
        left = asked.until - self.now()
        alarm = None if left == inf else job.loop.call_later(max(left, 0.0), self._expire, job)
        try:
            await job.future
        finally:
            if alarm is not None:
                alarm.cancel()
            lap.waited += self._leave(job)

    def _join(self, asked: Asked, progress: Progress, lap: Lap) -> Job:
        plan = Plan(self.scorer, self._passages, self.options, asked)
        with self._news:
            if self._closed or len(self._line) >= self._most:
                raise Overloaded(
                    f"The reranker has {len(self._line)} requests in line, of {self._most} at most. "
                    "Try again later or add an instance.",
                    retry_after=self._retry_after(),
                )
            self._joined += 1
            job = Job(plan, progress, lap, self.now(), self._joined)
            self._line.append(job)
            self._news.notify()
        return job

    def _retry_after(self) -> float:
        """Seconds until the first in line is out of time, and so makes room at the latest."""
        first = min((job.plan.asked.until for job in self._line), default=-inf)
        return max(first - self.now(), LEAST_RETRY) if first < inf else 1.0

    def _expire(self, job: Job) -> None:
        job.settle(None)
        self._leave(job)

    def _leave(self, job: Job) -> float:
        """Takes a job out of the line, ends its run if nobody else wants it, and returns the seconds it waited."""
        with self._news:
            now = self.now() if job.ended is None else job.ended
            if job in self._line:
                self._line.remove(job)
            job.over = True
            run = self._running
            worked = job.worked
            if run is not None and run.of(job):
                worked += max(now - run.began, 0.0)
                if not run.wanted():
                    run.stopper.stop()
            return max(now - job.joined - worked, 0.0)

    def _serve(self) -> None:
        while True:
            with self._news:
                idle = not self._line
            if idle:
                self._idle()
            with self._news:
                while not self._line and not self._closed:
                    self._news.wait()
                if not self._line:
                    return
            with self._permits:  # chosen only now, so that whoever came while waiting for a permit counts
                run = self._next()
                if run is not None:
                    self._compute(run)

    def _next(self) -> Run | None:
        """The run to begin now, with pairs of others where sharing saves time; None when nobody has one."""
        run: Run | None = None
        jobs = self._in_order()
        for job in jobs:
            if run is not None and not self._has_room(run):
                break
            places = self._planned(job, jobs)
            if places is None:
                continue
            if run is None:
                run = Run(job, places)
            elif not self._shared(run, job, places):
                job.plan.put_back(places)
                break
        return run

    def _planned(self, job: Job, jobs: Sequence[Job]) -> list[int] | None:
        """Places of a job's next run; None where there is none, of which its caller is then told.

        Where nobody in line has more time left, what is not begun for this job is begun for nobody, so it dares.
        """
        dares = all(other.plan.asked.until <= job.plan.asked.until for other in jobs)
        try:
            places = job.plan.next(self.now, max(len(jobs), 1), dares=dares)
        except Exception as error:  # noqa: BLE001  handed to the caller, who awaits it
            self._finish(job, error)
            return None
        if places is None:
            if job.turns == 0:
                self.scorer.cost.refused()
            self._finish(job, None)
        return places

    def _in_order(self) -> list[Job]:
        with self._news:
            jobs = list(self._line)
        self._turn += 1
        jobs.sort(key=Job.standing)
        if self._turn % FAIR == 0:
            jobs.sort(key=lambda job: -job.priority)
        return jobs

    def _has_room(self, run: Run) -> bool:
        """Whether a pair as long as these would be let in: if not, nobody else's pairs need be looked at."""
        one = self._around(1, run.shape.length)
        together = self._around(run.rows() + 1, run.shape.length)
        return self._pays(run.shape, one, together)

    def _shared(self, run: Run, job: Job, places: list[int]) -> bool:
        """Adds a job's pairs to a run, where that saves time and makes nobody late."""
        shape = job.plan.shape(places)
        together = self._around(run.rows() + len(places), max(run.shape.length, shape.length))
        until = min(run.until(), job.plan.asked.until)
        if not self._pays(run.shape, shape, together) or self.now() + self.scorer.cost.careful(together) > until:
            return False
        run.parts.append((job, places))
        run.shape = together
        return True

    def _pays(self, one: Shape, other: Shape, together: Shape) -> bool:
        if together.tokens > self.options.run_tokens:
            return False
        return worth_sharing(self.scorer.cost.expected, one, other, together)

    def _around(self, rows: int, longest: int) -> Shape:
        return self.scorer.buckets.around(rows, longest, self.scorer.max_tokens)

    def _compute(self, run: Run) -> None:
        with self._news:
            if not run.wanted():
                return
            run.began = self.now()
            self._running = run
        scores: Sequence[float] | None = None
        failure: Exception | None = None
        try:
            pairs = [pair for job, places in run.parts for pair in job.plan.pairs(places)]
            scores = self.scorer.score(pairs, run.stopper)
        except Exception as error:  # noqa: BLE001  handed to the callers, who await it
            failure = error
        with self._news:
            self._running = None
            took = self.now() - run.began
            for job, _ in run.parts:
                job.worked += took
                job.turns += 1
        if failure is None:
            self._learn(run, took, ended=scores is None)
        self._hand_out(run, scores, failure)

    def _learn(self, run: Run, took: float, *, ended: bool) -> None:
        self.counts.runs += 1
        self.counts.terminated += ended
        self.counts.shared += not ended and len(run.parts) > 1
        self._typical.learn(took)
        cost = self.scorer.cost
        if not ended or took > cost.expected(run.shape):  # a run that was ended would have taken at least this long
            cost.learn(run.shape, took)

    def _hand_out(self, run: Run, scores: Sequence[float] | None, failure: Exception | None) -> None:
        at = 0
        for job, places in run.parts:
            if scores is not None:
                job.progress.add(places, scores[at : at + len(places)])
                self.counts.pairs += len(places)
                at += len(places)
                job.plan.done(places)
                self._look_ahead(job)
            else:
                self._finish(job, failure)

    def _look_ahead(self, job: Job) -> None:
        """Lets a caller go at once for whom nothing more can be done, and not when its turn comes again."""
        places = self._planned(job, tuple(self._line))
        if places is not None:
            job.plan.put_back(places)

    def _finish(self, job: Job, error: BaseException | None) -> None:
        with self._news:
            if job in self._line:
                self._line.remove(job)
            job.over = True
            job.ended = self.now()
        try:
            job.loop.call_soon_threadsafe(job.settle, error)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            return
