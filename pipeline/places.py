"""Places that callers hold for a while, such as connections, and a bounded line of those who wait for one.

The line goes by priority, and one turn in eight is for the last priority in it (`pipeline/line.py`). How long a
newcomer will wait is told from how long places are typically held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf

from pipeline.errors import Overloaded
from pipeline.expecting import Typical
from pipeline.line import Line


@dataclass(frozen=True, slots=True)
class PlacesOptions:
    """`places` are held at once, and `line` callers at most wait for one; `what` they are, for whoever is refused."""

    what: str
    places: int
    line: int


class Places:
    """Belongs to one event loop."""

    def __init__(self, options: PlacesOptions, *, now: Callable[[], float] = time.perf_counter) -> None:
        self.options = options
        self._now = now
        self._held = 0
        self._line: Line[asyncio.Future[None]] = Line()
        self._typical = Typical()

    @property
    def held(self) -> int:
        """Places that are taken."""
        return self._held

    @property
    def waiting(self) -> int:
        """Callers in line."""
        return len(self._line)

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds that a newcomer would wait, behind whoever has its priority or a lower one."""
        if self._held < self.options.places:
            return 0.0
        return (self._line.ahead(priority, deadline) + 1) * self._typical.seconds / self.options.places

    @asynccontextmanager
    async def place(self, priority: int = 0) -> AsyncGenerator[None, None]:
        """Waits for a place and holds it. Raises Overloaded when the line is full."""
        if self._held < self.options.places:
            self._held += 1
        else:
            await self._stand_in_line(priority)
        began = self._now()
        try:
            yield
        finally:
            self._typical.learn(self._now() - began)
            self._pass_on()

    async def _stand_in_line(self, priority: int) -> None:
        if len(self._line) >= self.options.line:
            raise Overloaded(
                f"All {self.options.places} {self.options.what} are taken and {self.options.line} callers wait in "
                "line. Try again later, or add capacity.",
                retry_after=max(self.expected_wait(priority), 0.001),
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = self._line.join(turn, priority, inf)
        try:
            await turn
        except asyncio.CancelledError:
            if not self._line.leave(key):  # its turn had come, and nobody else may lose the place
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Gives a place to whose turn it is, or back."""
        if self._line:
            self._line.take().set_result(None)
        else:
            self._held -= 1
