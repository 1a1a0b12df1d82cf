"""Watches an event loop from outside and tells what held it up, by the stack that did.

    computed    the loop's thread used more than `most` seconds of its core before it came to what was due next
    stood       it was at one and the same instruction for `still` seconds and used next to nothing of its core
    waited      it opened a file, started a process or looked up a name, however quick that was

None is a mere wall-clock time, which on a busy machine says little. The first two are seen by a thread that posts a
callback again and again and, while that is not run, looks at the loop's stack; the third by Python's audit events
(PEP 578), which come when it happens and miss nothing.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from traceback import StackSummary, walk_stack
from types import FrameType

WAITING = frozenset(
    "open subprocess.Popen os.system os.listdir os.scandir socket.getaddrinfo socket.gethostbyname sqlite3.connect "
    "shutil.copyfile shutil.rmtree".split()
)
LOOK = 0.005  # seconds between two looks at a loop that is busy


@dataclass
class Watchdog:
    """`found` has what held up the loop, and the stack that did."""

    loop: asyncio.AbstractEventLoop
    thread: int
    most: float
    still: float
    found: list[tuple[str, StackSummary]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def told(self) -> str:
        """Everything that was found, for a test's message."""
        return "\n".join(f"The loop {what}:\n{''.join(stack.format())}" for what, stack in self.found)

    def watch(self) -> None:
        """Until it is over; runs in a thread of its own."""
        before = self._turn(None)
        while not self._over.wait(LOOK):
            before = self._turn(before)

    def heard(self, event: str, arguments: tuple[object, ...]) -> None:
        """An audit event, on whatever thread; nothing here may raise one."""
        if event in WAITING and threading.get_ident() == self.thread and not self._over.is_set():
            self.found.append((f"waited in {event}{arguments[:1]}", _stack(sys._getframe(2))))

    def end(self) -> None:
        self._over.set()

    def _turn(self, before: float | None) -> float:
        """Posts a callback, and looks until the loop comes to it; returns what its thread has used of its core then."""
        used: list[float] = []
        came = threading.Event()

        def mark() -> None:
            used.append(time.thread_time())
            came.set()

        self.loop.call_soon_threadsafe(mark)
        stacks: list[StackSummary] = []
        at, since = None, 0.0
        stood = False
        while not came.wait(LOOK):
            frame = sys._current_frames().get(self.thread)
            if frame is None:
                break
            stacks.append(_stack(frame))
            if at != (frame, frame.f_lasti):
                at, since = (frame, frame.f_lasti), time.monotonic()
            stood = stood or time.monotonic() - since > self.still
        del at
        if not used:
            return 0.0
        took = used[0] - (used[0] if before is None else before)
        if took > self.most:
            middle = stacks[len(stacks) // 2] if stacks else StackSummary()
            self.found.append((f"computed for {took:.3f} s of its core in one go", middle))
        elif stood:
            self.found.append((f"stood for more than {self.still:g} s", stacks[len(stacks) // 2]))
        return used[0]


def _stack(frame: FrameType | None) -> StackSummary:
    """The innermost last; source lines are read when it is told, and not here."""
    summary = StackSummary.extract(walk_stack(frame), limit=12, lookup_lines=False)
    summary.reverse()
    return summary


_watching: list[Watchdog] = []
_hooked: list[bool] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    for watchdog in _watching:
        watchdog.heard(event, arguments)


@contextmanager
def watchdog(
    loop: asyncio.AbstractEventLoop, thread: int, *, most: float = 0.05, still: float = 1.0
) -> Generator[Watchdog]:
    """Watches a loop that runs on another thread. Python keeps audit hooks for ever, so there is one for all."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_hear)
    watching = Watchdog(loop, thread, most, still)
    _watching.append(watching)
    looking = threading.Thread(target=watching.watch, name="watchdog", daemon=True)
    looking.start()
    try:
        yield watching
    finally:
        watching.end()
        looking.join(10)
        _watching.remove(watching)
