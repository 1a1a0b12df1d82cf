"""An event loop whose time passes only while nobody has anything to do: an hour of waiting takes no time at all."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Counts from 0."""

    def __init__(self) -> None:
        self.passed = 0.0
        super().__init__(_Passing(self))

    def time(self) -> float:
        return self.passed


class _Passing(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self._loop.passed += timeout
            timeout = 0
        return super().select(timeout)


class LoopTimer:
    """The load generator's timer on such a loop; it is never late."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def until(self, instant: float) -> None:
        await asyncio.sleep(max(instant - self.now(), 0))


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
