"""A request's place in the reranker's line, and a run of the model for one or several of them."""

from __future__ import annotations

import asyncio
from math import inf

from pipeline.clock import Lap
from rerank.anytime import Plan, Progress
from rerank.scorer import Stopper


class Job:
    """A request's place in line, from joining until nothing more is scored for it."""

    __slots__ = (
        "deadline",
        "ended",
        "future",
        "joined",
        "loop",
        "order",
        "over",
        "plan",
        "priority",
        "progress",
        "turns",
        "worked",
    )

    def __init__(self, plan: Plan, progress: Progress, lap: Lap, joined: float, order: int) -> None:
        self.plan = plan
        self.progress = progress
        self.priority = lap.priority
        self.deadline = lap.deadline
        self.joined = joined
        self.order = order
        self.turns = 0
        self.worked = 0.0
        self.over = False
        self.ended: float | None = None
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()

    def standing(self) -> tuple[int, int, float, int]:
        """Whose turn it is: the smaller comes first."""
        return (self.priority, self.turns, self.deadline, self.order)

    def settle(self, error: BaseException | None) -> None:
        """Lets the caller go on; on its own loop's thread."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Run:
    """What one call of the model computes: places of one or several jobs, each sorted by length."""

    __slots__ = ("began", "parts", "shape", "stopper")

    def __init__(self, job: Job, places: list[int]) -> None:
        self.parts: list[tuple[Job, list[int]]] = [(job, places)]
        self.shape = job.plan.shape(places)
        self.stopper = Stopper()
        self.began = inf

    def wanted(self) -> bool:
        """Whether anybody still waits for it."""
        return any(not job.over for job, _ in self.parts)

    def of(self, job: Job) -> bool:
        """Whether the job has pairs in it."""
        return any(job is other for other, _ in self.parts)

    def rows(self) -> int:
        """Pairs in it."""
        return sum(len(places) for _, places in self.parts)

    def until(self) -> float:
        """When the first of its callers is out of time."""
        return min(job.plan.asked.until for job, _ in self.parts)
