"""Real worker processes for tests: started, watched, killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from pathlib import Path

from assembly import StorageOptions
from ingest.catalog import Catalog
from ingest.nudging import JobNotices, RedisNudge
from pipeline.jobs import Job, JobState
from pipeline.passages import Upload
from tests.ingesting import TENANT

ROOT = Path(__file__).resolve().parents[1]
OVER = {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


class Site:
    """A data folder and a broker; workers come and go."""

    def __init__(self, data: Path, redis_url: str, catalog: Catalog) -> None:
        self.data = data
        self.redis_url = redis_url
        self.catalog = catalog
        self.log = data / "log"

    @classmethod
    @contextmanager
    def open(cls, data: Path, redis_url: str) -> Generator[Site, None, None]:
        (data / "gate" / "reached").mkdir(parents=True)
        os.mkfifo(data / "gate" / "pipe")
        with Catalog.open(StorageOptions(data).catalog()) as catalog:
            yield cls(data, redis_url, catalog)

    @contextmanager
    def workers(self, **settings: str) -> Generator[subprocess.Popen[bytes], None, None]:
        """What `fleetfoot work` runs. Ends with the block, whatever is left of it."""
        given = {
            "FLEETFOOT_REDIS_URL": self.redis_url,
            "FLEETFOOT_DATA_DIR": str(self.data),
            "FLEETFOOT_STAGES": "tests.worker_stages",
            "FLEETFOOT_PARSERS": "2",
            "FLEETFOOT_SWEEP_SECONDS": "0.5",
            "PYTHONPATH": str(ROOT),
            **settings,
        }
        command = [sys.executable, "-c", "from workers.supervising import work; work()"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, env={**os.environ, **given}, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                kill([process.pid, *descendants(process.pid)])
                process.wait()

    async def accept(self, **texts: str) -> Job:
        job = self.catalog.accept(TENANT, "handbook", [Upload(name, text.encode()) for name, text in texts.items()])
        async with RedisNudge.open(self.redis_url) as nudge:
            await nudge.nudge()
        return job

    async def finished(self, job_id: str) -> Job:
        """Waits as the API's event stream does."""
        try:
            async with (
                asyncio.timeout(60),
                JobNotices.open(self.redis_url) as notices,
                aclosing(notices.watch(job_id)) as words,
            ):
                async for _ in words:
                    job = self.catalog.job(TENANT, job_id)
                    if job.state in OVER:
                        return job
        except TimeoutError:
            raise AssertionError(f"{self.catalog.job(TENANT, job_id)}\n{self.log.read_text()[-6000:]}") from None
        raise AssertionError("the notices ended")

    def wait_until_reached(self) -> str:
        """Waits until a worker waits at the gate, and returns the document that it was given."""
        for _ in range(3000):
            reached = sorted((self.data / "gate" / "reached").iterdir())
            if reached:
                return reached[0].name
            time.sleep(0.02)
        raise AssertionError(f"no worker came to the gate\n{self.log.read_text()[-6000:]}")

    @contextmanager
    def gate_open(self) -> Generator[None, None, None]:
        """Lets everybody through until the block ends."""
        pipe = os.open(self.data / "gate" / "pipe", os.O_RDWR)
        try:
            yield
        finally:
            os.close(pipe)


def descendants(process: int) -> list[int]:
    """Ids of all processes below one, by /proc."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [process]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def living(processes: list[int]) -> list[int]:
    """Those that still run; one that only waits to be buried does not."""
    found = []
    for process in processes:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in {"Z", "X"}:
            found.append(process)
    return found


def kill(processes: list[int]) -> None:
    """SIGKILL, one by one."""
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def native_libraries(process: int) -> set[str]:
    """Which of the native packages are loaded into a process, by its memory map."""
    names = ("numpy", "faiss", "onnxruntime", "pyarrow", "tokenizers", "llvmlite", "numba", "torch")
    maps = Path(f"/proc/{process}/maps").read_text()
    return {name for name in names if f"/site-packages/{name}" in maps}
