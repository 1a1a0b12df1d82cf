"""A lane: a few threads and a short line, for native code that lets go of the interpreter lock while it computes.

Whoever comes when the line is full is refused at once: waiting longer would only be late for more people. A caller
who leaves, or whose time runs out, is dropped before anything is computed for it. Leaving frees the caller and not
the thread: work already begun keeps its place until it returns, so long work asks `ticket.wanted()` between batches.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, TypeVar

from pipeline.clock import Lap
from pipeline.errors import Overloaded

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """`threads` work at once; `line` callers at most wait behind them."""

    name: str
    threads: int = 1
    line: int = 64


class Ticket:
    """A caller's place in a lane, from joining the line to the result."""

    __slots__ = ("deadline", "future", "joined", "left", "loop", "order", "started", "work")

    def __init__(
        self, work: Callable[[Ticket], Any], deadline: float, joined: float, order: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.work = work
        self.deadline = deadline
        self.joined = joined
        self.order = order
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.started: float | None = None
        self.left = False

    def __lt__(self, other: Ticket) -> bool:
        return (self.deadline, self.order) < (other.deadline, other.order)

    def wanted(self) -> bool:
        """Whether anybody still waits for the result; asked between batches, from the lane's thread."""
        return not self.left


class Lane:
    """Opened with `with`; the line is served earliest deadline first.

    `permits` bounds native calls over all lanes of the process; waiting for one counts as waiting in line.
    """

    def __init__(
        self,
        options: LaneOptions,
        *,
        permits: AbstractContextManager[object] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.options = options
        self._permits = permits if permits is not None else nullcontext()
        self._now = now
        self._line: list[Ticket] = []
        self._waiting = 0
        self._order = 0
        self._busy = 0
        self._typical = 0.0
        self._closed = False
        self._turn = threading.Condition()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Lane:
        for number in range(self.options.threads):
            thread = threading.Thread(target=self._serve, name=f"{self.options.name}-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        """Refuses newcomers, lets work already begun return, and joins the threads."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()

    @property
    def waiting(self) -> int:
        """Callers in line, not counting those who left."""
        return self._waiting

    @property
    def busy(self) -> int:
        """Threads at work, those included whose caller has left."""
        return self._busy

    def retry_after(self) -> float:
        """Seconds until the line as it stands is likely to be served, from how long work typically takes."""
        return max((self._waiting + self._busy) * self._typical / self.options.threads, 0.001)

    async def run(self, lap: Lap, work: Callable[[Ticket], T]) -> T:
        """Computes `work` on a thread of the lane and returns what it returns, or raises what it raises.

        Raises Overloaded when the line is full. The time in line is added to `lap.waited`.
        """
        ticket = self._join(work, lap.deadline)
        try:
            result: T = await ticket.future
            return result
        finally:
            self._leave(ticket, lap)

    def _join(self, work: Callable[[Ticket], Any], deadline: float) -> Ticket:
        loop = asyncio.get_running_loop()
        with self._turn:
            if self._closed or self._waiting >= self.options.line:
                raise Overloaded(
                    f"The lane '{self.options.name}' has {self._waiting} callers in line, of {self.options.line} at "
                    "most. Try again later or add an instance.",
                    retry_after=self.retry_after(),
                )
            self._order += 1
            ticket = Ticket(work, deadline, self._now(), self._order, loop)
            heappush(self._line, ticket)
            self._waiting += 1
            self._turn.notify()
        return ticket

    def _leave(self, ticket: Ticket, lap: Lap) -> None:
        with self._turn:
            ticket.left = True
            if ticket.started is None:
                if ticket in self._line:
                    self._line.remove(ticket)
                    self._line.sort()
                    self._waiting -= 1
                lap.waited += self._now() - ticket.joined
            else:
                lap.waited += ticket.started - ticket.joined

    def _serve(self) -> None:
        while True:
            with self._turn:
                while not self._line and not self._closed:
                    self._turn.wait()
                if not self._line:
                    return
                ticket = heappop(self._line)
                self._waiting -= 1
                self._busy += 1
            try:
                with self._permits:
                    self._compute(ticket)
            finally:
                with self._turn:
                    self._busy -= 1

    def _compute(self, ticket: Ticket) -> None:
        with self._turn:
            if ticket.left:
                return
            ticket.started = self._now()
        try:
            result, error = ticket.work(ticket), None
        except BaseException as raised:  # noqa: BLE001  handed to the caller, who awaits it
            result, error = None, raised
        took = self._now() - ticket.started
        self._typical = took if self._typical == 0 else 0.9 * self._typical + 0.1 * took
        try:
            ticket.loop.call_soon_threadsafe(_hand_over, ticket.future, result, error)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            return


def _hand_over(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
