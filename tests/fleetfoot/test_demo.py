"""The demo as a process: it shows the right answer, and whichever way it is ended, nothing that it started is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.errors import Misconfigured
from tests.running_service import ROOT, clean_environment, fetched_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="descendants are read from /proc"),
]

PATIENCE = 180.0  # seconds
LOOK = 0.1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with nothing in it but the model."""
    try:
        model = fetched_model()
    except Misconfigured as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("demo") / "data"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "default").symlink_to(model)
    return folder


@contextmanager
def demo(data: Path, log: Path, *options: str) -> Generator[subprocess.Popen[bytes], None, None]:
    """`python -m fleetfoot demo` in a process group of its own, as a terminal starts it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "fleetfoot", "demo", "--data", str(data), "--port", "0", *options],
            cwd=ROOT,
            env={**clean_environment(), "FLEETFOOT_GRACE_SECONDS": "5"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for pid in (process.pid, *descendants(process.pid)):
            _kill(pid)
        process.wait()


def test_the_answer_cites_the_right_document_and_nothing_is_left(data: Path, tmp_path: Path) -> None:
    with demo(data, tmp_path / "log", "--once") as process:
        seen = watched(process)
        said = (tmp_path / "log").read_text()
        assert process.returncode == 0, said
        assert "The answer cites the right document: notices/marmots.md" in said
        assert "first token after" in said
        assert len(seen) >= 6  # Valkey, the API, the supervisor, two workers and their pools
        assert gone(seen) == set()


@pytest.mark.parametrize(("number", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False)], ids=str)
def test_whichever_way_it_is_ended_it_ends_what_it_started(
    data: Path, tmp_path: Path, number: signal.Signals, group: bool
) -> None:
    with demo(data, tmp_path / "log") as process:
        until_said(process, tmp_path / "log", "Ctrl-C stops everything")
        running = descendants(process.pid)
        assert len(running) >= 6
        os.killpg(process.pid, number) if group else process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert "Traceback" not in (tmp_path / "log").read_text()
        assert gone(running) == set()


def test_ended_in_the_middle_of_starting_it_leaves_nothing_either(data: Path, tmp_path: Path) -> None:
    with demo(data, tmp_path / "log") as process:
        until_said(process, tmp_path / "log", "a Valkey server")
        running = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        seen = running | watched(process)
        assert process.returncode == 130
        assert "Traceback" not in (tmp_path / "log").read_text()
        assert gone(seen) == set()


def test_a_worker_that_ends_by_itself_ends_the_demo_with_its_reason(data: Path, tmp_path: Path) -> None:
    with demo(data, tmp_path / "log") as process:
        until_said(process, tmp_path / "log", "Ctrl-C stops everything")
        running = descendants(process.pid)
        (worker,) = [pid for pid in running if _command(pid).endswith(b"fleetfoot\0work\0")]
        os.kill(worker, signal.SIGKILL)
        assert process.wait(PATIENCE) == 1
        assert "The worker ended by itself with status -9" in (tmp_path / "log").read_text()
        assert gone(running) == set()


def until_said(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    for _ in range(int(PATIENCE / LOOK)):
        if words in log.read_text(errors="replace"):
            return
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(LOOK)
    raise AssertionError(f"{words!r} was never said:\n{log.read_text(errors='replace')}")


def watched(process: subprocess.Popen[bytes]) -> set[int]:
    """Waits for the process to end; every process that it or its children started meanwhile and that was seen."""
    seen: set[int] = set()
    for _ in range(int(PATIENCE / LOOK)):
        seen |= descendants(process.pid)
        if process.poll() is not None:
            return seen
        time.sleep(LOOK)
    raise AssertionError("the demo does not end")


def gone(pids: set[int]) -> set[int]:
    """Those of the processes that are still there after a moment in which orphans may notice that they are alone."""
    for _ in range(100):
        left = {pid for pid in pids if _alive(pid)}
        if not left:
            break
        time.sleep(LOOK)
    return left


def descendants(root: int) -> set[int]:
    """Ids of all processes that descend from `root`, as /proc tells them at this moment."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, before = {root}, set[int]()
    while found != before:
        before = set(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {root}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
