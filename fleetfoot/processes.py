"""Child processes of the demo: started with a log file, known by their id, ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from pipeline.errors import Misconfigured

GRACE = 20.0  # seconds a child may take to finish what it is doing
ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def child(arguments: list[str], environment: Mapping[str, str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """Runs `python -m fleetfoot ARGUMENTS` until the block ends; then SIGTERM, the grace time, SIGKILL.

    The child leads a process group of its own, so that Ctrl-C in the terminal reaches only us and we end it in order.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-m", "fleetfoot", *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(*processes: subprocess.Popen[bytes]) -> None:
    """Ends children and whatever they started: all are asked at once, and get the grace time together."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    until = time.monotonic() + GRACE
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # too slow for us, or for whoever waits
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def interruptible() -> Generator[None]:
    """SIGTERM and a terminal that closes interrupt the block as Ctrl-C does; after the first nothing more does, so
    that what it started is ended in peace. What the caller ignores (nohup) stays ignored, Ctrl-C apart."""

    def interrupt(_: int, __: FrameType | None) -> None:
        for number in ENDINGS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in ENDINGS}
    for number, handler in before.items():
        if number == signal.SIGINT or handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def still_runs(name: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Raises Misconfigured with the end of the log when a child has ended by itself."""
    if process.poll() is not None:
        tail = log.read_text(errors="replace").strip().splitlines()[-12:]
        raise Misconfigured(
            f"The {name} ended by itself with status {process.returncode}. Its log ({log}) ends:\n" + "\n".join(tail)
        )
