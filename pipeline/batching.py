"""A lane that computes for several callers at once: whatever is in line when its thread comes free makes a batch.

Nobody waits for a batch to fill. The line is served by priority and deadline (`pipeline/line.py`), and a batch is
chosen so that it is done before the first deadline in it. Whoever would be late is refused on joining where that can be
told, and else dropped when the thread comes to it: nothing is computed for who left or cannot be served in time. As in
a lane, an idle thread tries what an estimate says is hopeless, so that the estimate is put right.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import ceil, inf
from typing import Generic, TypeVar

from pipeline.errors import Overloaded
from pipeline.expecting import BatchCost, Typical
from pipeline.line import Key, Line

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """`line` items at most wait; a batch holds `bound` units at most, and at least one item.

    A batch's units are its items times the size of its largest, as padding makes them. Without `foresight` nobody is
    refused or dropped for being late.
    """

    name: str
    line: int = 128
    bound: int = 64
    foresight: bool = True


class Place(Generic[Item, Result]):
    """An item's place in line. `started` is when its batch began, None before that.

    It is served by `priority` and `deadline`, the most urgent among those who want it, and worth computing until
    `latest`, the last of theirs.
    """

    __slots__ = ("deadline", "future", "item", "joined", "key", "latest", "loop", "priority", "size", "started")

    def __init__(self, item: Item, size: int, priority: int, deadline: float, joined: float) -> None:
        self.item = item
        self.size = size
        self.priority = priority
        self.deadline = deadline
        self.latest = deadline
        self.joined = joined
        self.started: float | None = None
        self.key: Key = (0, inf, 0)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Result] = self.loop.create_future()


class BatchingLane(Generic[Item, Result]):
    """Opened with `with`; one thread owns whatever `work` computes with.

    `work` gets a batch, shortest first, and returns one result for each item, in order. `size` is an item's units,
    without the batch. `now` is on the scale of the deadlines.
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
        self._line: Line[Place[Item, Result]] = Line()
        self._cost = BatchCost()
        self._permit = Typical()
        self._until: float | None = None  # when the batch under way is expected to be done
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

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds in line that a newcomer has to expect, from what stands before it and what batches have taken."""
        with self._turn:
            return self._rest() + self._takes(self._units_ahead(priority, deadline))

    def retry_after(self) -> float:
        """Seconds until the line as it stands is likely to be served."""
        with self._turn:
            return self._served()

    def join(self, items: Sequence[Item], deadline: float, priority: int = 0) -> list[Place[Item, Result]]:
        """Puts items in line together, so that they may share a batch.

        Raises Overloaded, for all of them or none, when the line is full, and when the deadline would come first.
        """
        joined = self._now()
        sizes = [self._size(item) for item in items]
        with self._turn:
            if self._closed or len(self._line) + len(items) > self.options.line:
                raise Overloaded(
                    f"The lane '{self.options.name}' has {len(self._line)} items in line, of {self.options.line} at "
                    "most. Try again later or add an instance.",
                    retry_after=self._served(),
                )
            self._refuse_late(sum(sizes), joined, deadline, priority)
            places: list[Place[Item, Result]] = []
            for item, size in zip(items, sizes, strict=True):
                place: Place[Item, Result] = Place(item, size, priority, deadline, joined)
                place.key = self._line.join(place, priority, deadline)
                places.append(place)
            self._turn.notify()
        return places

    def leave(self, place: Place[Item, Result]) -> bool:
        """Takes an item nobody wants any more out of the line; False when its batch has begun already."""
        with self._turn:
            return self._line.leave(place.key)

    def hasten(self, place: Place[Item, Result], deadline: float, priority: int = 0) -> None:
        """Moves an item forward for somebody else who wants it: sooner, later or with another priority."""
        with self._turn:
            place.latest = max(place.latest, deadline)
            urgent = min(place.priority, priority), min(place.deadline, deadline)
            if urgent == (place.priority, place.deadline) or not self._line.holds(place.key):
                return
            place.priority, place.deadline = urgent
            place.key = self._line.move(place.key, *urgent)

    def _refuse_late(self, units: int, now: float, deadline: float, priority: int) -> None:
        idle = not self._line and self._until is None
        if deadline == inf or idle or not self.options.foresight:
            return
        ahead = self._units_ahead(priority, deadline)
        done = self._rest() + self._takes(ahead + units) + self._cost.deviation
        if now + done > deadline:
            raise Overloaded(
                f"The lane '{self.options.name}' would be done with this in {done * 1000:.0f} ms, and "
                f"{max(deadline - now, 0) * 1000:.0f} ms are left for it. Try again later, allow more time or add an "
                "instance.",
                retry_after=self._served(),
            )

    def _units_ahead(self, priority: int, deadline: float) -> int:
        before = self._line.ahead(priority, deadline)
        return sum(place.size for place, _ in zip(self._line.in_order(), range(before), strict=False))

    def _rest(self) -> float:
        """Seconds until the batch under way is expected to be done."""
        return 0.0 if self._until is None else max(self._until - self._now(), 0.0)

    def _takes(self, units: int) -> float:
        """Seconds for so many units, in full batches."""
        runs = ceil(units / self.options.bound)
        return runs * (self._permit.seconds + self._cost.run) + self._cost.each * units

    def _served(self) -> float:
        everything = sum(place.size for place in self._line.in_order())
        return max(self._rest() + self._takes(everything), self._cost.expected(1), 0.001)

    def _serve(self) -> None:
        while True:
            with self._turn:
                while not self._line and not self._closed:
                    self._turn.wait()
                if not self._line:
                    return
            came = self._now()
            with self._permits:  # chosen only now, so that whoever came while waiting for a permit shares the batch
                batch, late = self._take(self._now() - came)
                for place in late:
                    _tell(place, _fail, self._too_late(place))
                if batch:
                    self._compute(batch)

    def _take(self, waited: float) -> tuple[list[Place[Item, Result]], list[Place[Item, Result]]]:
        """A batch, and whom it is too late for; both leave the line."""
        with self._turn:
            now = self._now()
            self._permit.learn(waited)
            turn = self._line.turn()
            late = [place for place in turn if self._late(place, now)]
            if len(late) == len(turn):  # an estimate alone does not turn everybody away: the likeliest is tried
                late = [place for place in turn if place.latest <= now]
                turn = sorted((place for place in turn if place.latest > now), key=lambda place: -place.latest)[:1]
            dropped = set(late)
            batch = self._chosen([place for place in turn if place not in dropped], now)
            for place in (*late, *batch):
                self._line.leave(place.key)
            for place in batch:
                place.started = now
            if batch:
                self._until = now + self._cost.expected(_padded(batch))
        return batch, late

    def _late(self, place: Place[Item, Result], now: float) -> bool:
        return self.options.foresight and now + self._cost.careful(place.size) > place.latest

    def _chosen(self, turn: Sequence[Place[Item, Result]], now: float) -> list[Place[Item, Result]]:
        """Down the line, whatever still fits: the bound in padded units, and the first deadline in the batch.

        One that does not fit is passed over, and comes first in a batch of its own soon.
        """
        batch: list[Place[Item, Result]] = []
        largest, first = 0, inf
        for place in turn:
            units = (len(batch) + 1) * max(largest, place.size)
            until = min(first, place.latest)
            fits = units <= self.options.bound
            in_time = not self.options.foresight or now + self._cost.careful(units) <= until
            if not batch or (fits and in_time):
                batch.append(place)
                largest, first = max(largest, place.size), until
        batch.sort(key=lambda place: place.size)
        return batch

    def _compute(self, batch: list[Place[Item, Result]]) -> None:
        results: Sequence[Result] = ()
        error: BaseException | None = None
        started = self._now()
        try:
            results = self._work([place.item for place in batch])
        except BaseException as raised:  # noqa: BLE001  handed to the callers, who await it
            error = raised
        with self._turn:
            self._cost.learn(_padded(batch), self._now() - started)
            self._until = None
        for number, place in enumerate(batch):
            if error is None:
                _tell(place, _settle, results[number])
            else:
                _tell(place, _fail, error)

    def _too_late(self, place: Place[Item, Result]) -> Overloaded:
        return Overloaded(
            f"The lane '{self.options.name}' came to this after {(self._now() - place.joined) * 1000:.0f} ms, too late "
            "to be done in time, so it was not begun. Try again later, allow more time or add an instance.",
            retry_after=self.retry_after(),
        )


def _padded(batch: Sequence[Place[Item, Result]]) -> int:
    return len(batch) * max(place.size for place in batch)


def _tell(place: Place[Item, Result], how: Callable[..., None], what: object) -> None:
    try:
        place.loop.call_soon_threadsafe(how, place.future, what)
    except RuntimeError:  # the loop has closed: nobody is left to tell
        return


def _settle(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Result], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
