"""A timer that is on time. Event loops count in whole milliseconds; a thread that sleeps wakes within some 0.1 ms."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Protocol


class Timer(Protocol):
    """Seconds from any fixed point, and a way to wait for one of them; tests pass one that needs no time."""

    def now(self) -> float:
        """Now."""
        ...

    async def until(self, instant: float) -> None:
        """Returns at the instant, or after others had their turn where it has passed."""
        ...


class ThreadTimer:
    """Opened with `ThreadTimer.open()`; used on one event loop."""

    def __init__(self) -> None:
        self._line: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._turn = threading.Condition()
        self._closed = False

    @classmethod
    @contextmanager
    def open(cls) -> Generator[ThreadTimer]:
        """Starts the thread and joins it in the end."""
        timer = cls()
        thread = threading.Thread(target=timer._serve, args=(asyncio.get_running_loop(),), daemon=True, name="timer")
        thread.start()
        try:
            yield timer
        finally:
            with timer._turn:
                timer._closed = True
                timer._turn.notify()
            thread.join()

    def now(self) -> float:
        """Seconds of the process-wide performance counter."""
        return time.perf_counter()

    async def until(self, instant: float) -> None:
        """Returns at the instant, or after others had their turn where it has passed."""
        if instant <= time.perf_counter():
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._turn:
            heappush(self._line, (instant, next(self._numbers), future))
            self._turn.notify()
        await future

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._turn:
                while not self._closed and (not self._line or self._line[0][0] > time.perf_counter()):
                    self._turn.wait(max(self._line[0][0] - time.perf_counter(), 0.0) if self._line else None)
                if self._closed:
                    return
                _, _, future = heappop(self._line)
            loop.call_soon_threadsafe(_over, future)


def _over(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
