"""Child processes of the demo: started with a log file, known by their id, ended in reverse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import Misconfigured

GRACE = 20.0  # seconds a child may take to finish what it is doing


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


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a child and whatever it started, gently first."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def still_runs(name: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Raises Misconfigured with the end of the log when a child has ended by itself."""
    if process.poll() is not None:
        tail = log.read_text(errors="replace").strip().splitlines()[-12:]
        raise Misconfigured(
            f"The {name} ended with status {process.returncode} while starting. Its log ({log}) ends:\n"
            + "\n".join(tail)
        )
