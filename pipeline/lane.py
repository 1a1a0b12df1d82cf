"""A lane: a few threads and a short line, for native code that lets go of the interpreter lock while it computes.

The line is served by priority and deadline (`pipeline/line.py`). Whoever comes when it is full, or would come to its
turn too late, is refused at once: waiting would only be late for more people. A caller who leaves, or whose time runs
out, is dropped before anything is computed for it. Leaving frees the caller and not the thread: work already begun
keeps its place until it returns, so long work asks `ticket.wanted()` between batches.

What is foreseen rests on what work has taken so far, so a lane that is idle takes anybody: an estimate that one hiccup
has spoilt is put right by the next piece of work, and never refuses for ever.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from pipeline.clock import Lap
from pipeline.errors import Overloaded
from pipeline.expecting import Typical
from pipeline.line import Key, Line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """`threads` work at once; `line` callers at most wait behind them.

    Without `foresight` nobody is refused or dropped for being late: for work of very different lengths, of which the
    one tells nothing about the next.
    """

    name: str
    threads: int = 1
    line: int = 64
    foresight: bool = True


class Ticket:
    """A caller's place in a lane, from joining the line to the result. `taken` is when a thread turned to it."""

    __slots__ = ("deadline", "future", "joined", "key", "left", "loop", "needs", "started", "taken", "work")

    def __init__(
        self,
        work: Callable[[Ticket], Any],
        deadline: float,
        needs: float | None,
        joined: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.work = work
        self.deadline = deadline
        self.needs = needs
        self.joined = joined
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.key: Key = (0, inf, 0)
        self.taken = 0.0
        self.started: float | None = None
        self.left = False

    def wanted(self) -> bool:
        """Whether anybody still waits for the result; asked between batches, from the lane's thread."""
        return not self.left


class Lane:
    """Opened with `with`.

    `permits` bounds native calls over all lanes of the process; waiting for one counts as waiting in line. `now` is on
    the scale of the laps' deadlines.
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
        self._line: Line[Ticket] = Line()
        self._working: set[Ticket] = set()
        self._turn_takes = Typical()  # a thread, from one ticket to the next, waiting for a permit included
        self._work_takes = Typical()
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
        return len(self._line)

    @property
    def busy(self) -> int:
        """Threads at work, those included whose caller has left."""
        return len(self._working)

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds in line that a newcomer has to expect, from what stands before it and what work typically takes."""
        with self._turn:
            return self._wait(self._line.ahead(priority, deadline))

    def retry_after(self) -> float:
        """Seconds until the line as it stands is likely to be served."""
        with self._turn:
            return self._served()

    async def run(self, lap: Lap, work: Callable[[Ticket], T], *, needs: float | None = None) -> T:
        """Computes `work` on a thread of the lane and returns what it returns, or raises what it raises.

        Raises Overloaded when the line is full, and when the lap's deadline would come before the work is done.
        `needs` is how long it takes at least: 0 for work that fits itself to what is left, None for what the lane's
        work typically takes. The time in line is added to `lap.waited`.
        """
        ticket = self._join(lap, work, needs)
        try:
            result: T = await ticket.future
            return result
        finally:
            self._leave(ticket, lap)

    def _join(self, lap: Lap, work: Callable[[Ticket], Any], needs: float | None) -> Ticket:
        loop = asyncio.get_running_loop()
        with self._turn:
            now = self._now()
            if self._closed or len(self._line) >= self.options.line:
                raise Overloaded(
                    f"The lane '{self.options.name}' has {len(self._line)} callers in line, of {self.options.line} at "
                    "most. Try again later or add an instance.",
                    retry_after=self._served(),
                )
            self._refuse_late(lap, now, needs)
            ticket = Ticket(work, lap.deadline, needs, now, loop)
            ticket.key = self._line.join(ticket, lap.priority, lap.deadline)
            self._turn.notify()
        return ticket

    def _refuse_late(self, lap: Lap, now: float, needs: float | None) -> None:
        idle = not self._line and not self._working
        if lap.deadline == inf or idle or not self.options.foresight:
            return
        wait = self._wait(self._line.ahead(lap.priority, lap.deadline))
        takes = self._turn_takes.seconds if needs is None else needs
        if now + wait + takes > lap.deadline:
            raise Overloaded(
                f"The lane '{self.options.name}' would come to this in {wait * 1000:.0f} ms and then take "
                f"{takes * 1000:.0f}; {max(lap.deadline - now, 0) * 1000:.0f} ms are left for it. "
                "Try again later, allow more time or add an instance.",
                retry_after=self._served(),
            )

    def _wait(self, ahead: int) -> float:
        """Seconds until a thread is free for whoever has `ahead` callers before it."""
        if ahead == 0 and len(self._working) < self.options.threads:
            return 0.0
        now, takes = self._now(), self._turn_takes.seconds
        left = sum(max(takes - (now - ticket.taken), 0.0) for ticket in self._working)
        return (left + ahead * takes) / self.options.threads

    def _served(self) -> float:
        return max(self._wait(len(self._line)), self._turn_takes.seconds / self.options.threads, 0.001)

    def _leave(self, ticket: Ticket, lap: Lap) -> None:
        with self._turn:
            ticket.left = True
            if ticket.started is None:
                self._line.leave(ticket.key)
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
                ticket = self._line.take()
                ticket.taken = self._now()
                self._working.add(ticket)
            try:
                with self._permits:
                    self._compute(ticket)
            finally:
                with self._turn:
                    self._working.discard(ticket)
            del ticket  # its work may have the last reference to a generation, which an idle thread would keep open

    def _compute(self, ticket: Ticket) -> None:
        with self._turn:
            if ticket.left:
                return
            now = self._now()
            late = self._late(ticket, now)
            if not late:
                ticket.started = now
        if late:
            _tell(ticket, None, self._too_late(ticket, now))
            return
        try:
            result, error = ticket.work(ticket), None
        except BaseException as raised:  # noqa: BLE001  handed to the caller, who awaits it
            result, error = None, raised
        ended = self._now()
        with self._turn:
            self._work_takes.learn(ended - now)
            self._turn_takes.learn(ended - ticket.taken)
        _tell(ticket, result, error)

    def _late(self, ticket: Ticket, now: float) -> bool:
        """Whether the work would come too late; where only an estimate says so and nobody else waits, it is tried."""
        if not self.options.foresight:
            return False
        if now >= ticket.deadline:
            return True
        needs = self._work_takes.seconds if ticket.needs is None else ticket.needs
        return bool(self._line) and now + needs > ticket.deadline

    def _too_late(self, ticket: Ticket, now: float) -> Overloaded:
        return Overloaded(
            f"The lane '{self.options.name}' came to this after {(now - ticket.joined) * 1000:.0f} ms, too late to be "
            "done in time, so it was not begun. Try again later, allow more time or add an instance.",
            retry_after=self.retry_after(),
        )


def _tell(ticket: Ticket, result: object, error: BaseException | None) -> None:
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
