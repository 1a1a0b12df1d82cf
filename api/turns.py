"""One new request in each turn of the event loop.

When 32 requests come in one moment, the loop would do the first step of all of them, then the second of all, and so on:
none would reach the model before the last is nearly there, and no stream that runs would get its next token out in the
meantime. Let in one in each turn, the first is at the model after its own few milliseconds, and tokens go out between
any two. Nobody is held up: a turn ends as soon as all that is ready has had its step.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def take(self) -> None:
        """Returns at once where nobody has begun in this turn of the loop, else in a later one, in order of coming."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._pass_on, loop)
            return
        turn = loop.create_future()
        self._line.append(turn)
        await turn

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():  # its request has not been cancelled
                turn.set_result(None)
                loop.call_soon(self._pass_on, loop)
                return
        self._taken = False
