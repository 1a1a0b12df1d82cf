"""Event-loop lag: how late the loop gets to what is due. A handler that computes, or a stolen core, shows here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

EVERY = 0.05  # seconds between two looks
GAIN = 0.2  # of one look in the smoothed figure: half a second's worth of looks decides


class Lag:
    """Belongs to one event loop; `tell` is given each lateness, in seconds.

    Timers here have a resolution of a millisecond, so a figure below that says nothing.
    """

    def __init__(self, tell: Callable[[float], None], *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._tell = tell
        self._clock = clock
        self._due = float("inf")
        self._smoothed = 0.0

    @property
    def now(self) -> float:
        """Smoothed over the last half second, or how late the loop already is, if that is more."""
        return max(self._smoothed, self._clock() - self._due)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        """Looks, until the block ends."""
        watching = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            watching.cancel()

    async def watch(self) -> None:
        """Looks for ever."""
        while True:
            self._due = self._clock() + EVERY
            await asyncio.sleep(EVERY)
            self.learn(self._clock() - self._due)

    def learn(self, late: float) -> None:
        """Takes in that the loop came to something so many seconds late; a timer that was early was not late."""
        late = max(late, 0.0)
        self._smoothed += GAIN * (late - self._smoothed)
        self._tell(late)
