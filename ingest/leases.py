"""Leases: who works on a row, until when, and with which number.

A task takes a row by writing its name, a time, and the row's next number (its *fence*) in one statement. While it
works, a heartbeat moves the time on. What it did is taken only if the row still has that number: a worker that was
thought dead, and was only slow, changes nothing. A row whose time has passed is anybody's again; one whose owner ran
on this very machine and is gone is anybody's at once.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import Conflict, Unavailable

_PROC = Path("/proc")
_log = logging.getLogger(__name__)


class LostLease(Conflict):
    """Somebody else took the work over, or it was cancelled; what was done of it is thrown away."""


def this_process() -> str:
    """Names this process, in a way that no other process on any machine is named."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether the owner ran on this machine and has ended. Of other machines nothing is known: False."""
    machine, _, rest = owner.partition("/")
    if machine != _machine():
        return False
    process, _, started = rest.partition("/")
    if _PROC.is_dir():
        return _started(int(process)) != started
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@contextmanager
def kept(renew: Callable[[], bool], every: float) -> Generator[Callable[[], bool], None, None]:
    """Calls `renew` every so many seconds, from a thread of its own, until the block ends or it returns False.

    Yields a function that tells whether the lease is still held; ask it between batches.
    """
    over, lost = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(every):
            try:
                held = renew()
            except Unavailable:  # the database is busy or away: the next beat, or the lease's end, decides
                _log.warning("A heartbeat could not be written.", exc_info=True)
                continue
            if not held:
                lost.set()
                return

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield lambda: not lost.is_set()
    finally:
        over.set()
        thread.join()


def _machine() -> str:
    """One boot of one machine or container: process ids mean nothing outside it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  not a path: pid:[4026531836]
    except OSError:
        return platform.node().replace("/", "-")
    return f"{boot}:{namespace}"


def _started(process: int) -> str:
    """When a process started, in clock ticks since boot; empty when it has ended (a zombie has). See proc(5)."""
    try:
        status = (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]
