"""A lane that computes for several callers at once: whatever is in line when its thread comes free makes a batch.

Nobody waits for a batch to fill. The line is served earliest deadline first; who left is dropped before computing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from pipeline.errors import Overloaded

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """`line` items at most wait; a batch holds `bound` units at most, and at least one item.

    A batch's units are its items times the size of its largest, as padding makes them.
    """

    name: str
    line: int = 128
    bound: int = 64


class Place(Generic[Item, Result]):
    """An item's place in line. `started` is when its batch began, None before that."""

    __slots__ = ("deadline", "future", "item", "joined", "loop", "order", "size", "started")

    def __init__(self, item: Item, size: int, deadline: float, joined: float, order: int) -> None:
        self.item = item
        self.size = size
        self.deadline = deadline
        self.joined = joined
        self.order = order
        self.started: float | None = None
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Result] = self.loop.create_future()

    def __lt__(self, other: Place[Item, Result]) -> bool:
        return (self.deadline, self.order) < (other.deadline, other.order)


class BatchingLane(Generic[Item, Result]):
    """Opened with `with`; one thread owns whatever `work` computes with.

    `work` gets a batch and returns one result for each item, in order. `size` is an item's units, without the batch.
    """

    def __init__(
        self,
        options: BatchingOptions,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        size: Callable[[Item], int],
        *,
        permits: AbstractContextManager[object] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.options = options
        self._work = work
        self._size = size
        self._permits = permits if permits is not None else nullcontext()
        self._now = now
        self._line: list[Place[Item, Result]] = []
        self._order = 0
        self._typical = 0.0
        self._closed = False
        self._turn = threading.Condition()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BatchingLane[Item, Result]:
        self._thread = threading.Thread(target=self._serve, name=self.options.name, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Refuses newcomers, serves those in line and joins the thread."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if self._thread is not None:
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Items in line; those who left are not in it."""
        return len(self._line)

    def retry_after(self) -> float:
        """Seconds until the line as it stands is likely to be served, from what an item typically takes."""
        return max((len(self._line) + 1) * self._typical, 0.001)

    def join(self, items: Sequence[Item], deadline: float) -> list[Place[Item, Result]]:
        """Puts items in line together, so that they may share a batch. Raises Overloaded for all of them or none."""
        joined = self._now()
        with self._turn:
            if self._closed or len(self._line) + len(items) > self.options.line:
                raise Overloaded(
                    f"The lane '{self.options.name}' has {len(self._line)} items in line, of {self.options.line} at "
                    "most. Try again later or add an instance.",
                    retry_after=self.retry_after(),
                )
            places: list[Place[Item, Result]] = []
            for item in items:
                self._order += 1
                place: Place[Item, Result] = Place(item, self._size(item), deadline, joined, self._order)
                heappush(self._line, place)
                places.append(place)
            self._turn.notify()
        return places

    def leave(self, place: Place[Item, Result]) -> bool:
        """Takes an item nobody wants any more out of the line; False when its batch has begun already."""
        with self._turn:
            if place.started is not None or place not in self._line:
                return False
            self._line.remove(place)
            heapify(self._line)
            return True

    def hasten(self, place: Place[Item, Result], deadline: float) -> None:
        """Moves an item forward for somebody who wants it sooner."""
        with self._turn:
            if deadline < place.deadline and place.started is None:
                place.deadline = deadline
                heapify(self._line)

    def _serve(self) -> None:
        while True:
            with self._turn:
                while not self._line and not self._closed:
                    self._turn.wait()
                if not self._line:
                    return
            with self._permits:  # chosen only now, so that whoever came while waiting for a permit shares the batch
                batch = self._take()
                if batch:
                    self._compute(batch)

    def _take(self) -> list[Place[Item, Result]]:
        batch: list[Place[Item, Result]] = []
        largest = 0
        with self._turn:
            started = self._now()
            while self._line:
                largest = max(largest, self._line[0].size)
                if batch and (len(batch) + 1) * largest > self.options.bound:
                    break
                place = heappop(self._line)
                place.started = started
                batch.append(place)
        return batch

    def _compute(self, batch: list[Place[Item, Result]]) -> None:
        results: Sequence[Result] = ()
        error: BaseException | None = None
        started = self._now()
        try:
            results = self._work([place.item for place in batch])
        except BaseException as raised:  # noqa: BLE001  handed to the callers, who await it
            error = raised
        took = (self._now() - started) / len(batch)
        self._typical = took if self._typical == 0 else 0.9 * self._typical + 0.1 * took
        for number, place in enumerate(batch):
            try:
                if error is None:
                    place.loop.call_soon_threadsafe(_settle, place.future, results[number])
                else:
                    place.loop.call_soon_threadsafe(_fail, place.future, error)
            except RuntimeError:  # the loop has closed: nobody is left to tell
                continue


def _settle(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Result], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
