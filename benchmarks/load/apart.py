"""A run in a process of its own, so that whoever reports, draws or serves here cannot make it late."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load.plan import Plan, Target
from benchmarks.load.recording import Recording
from pipeline.errors import FleetfootError, InvalidInput, Misconfigured

ROOMS = Path(__file__).resolve().parents[2]
KINDS: dict[str, type[FleetfootError]] = {"invalid_request": InvalidInput, "misconfigured": Misconfigured}
LONGEST_LINE = 2**30  # bytes; a recording is one line


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: requests that were answered or not, of those the plan expects, the warm-up among both."""

    ended: int
    expected: float
    answered: int


async def run_apart(plan: Plan, target: Target, progress: Callable[[Progress], None] | None = None) -> Recording:
    """Carries out the plan from `python -m benchmarks.load`. Raises what `sending.run` raises.

    The key travels through a pipe: nobody sees it in the list of processes.
    """
    path = os.pathsep.join(part for part in (str(ROOMS), os.environ.get("PYTHONPATH", "")) if part)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.load",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        limit=LONGEST_LINE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(_job(plan, target)).encode() + b"\n")
        process.stdin.close()
        async for line in process.stdout:
            said = json.loads(line)
            if "recording" in said:
                return Recording.from_json(said["recording"])
            if "error" in said:
                raise KINDS.get(said["error"]["code"], Misconfigured)(said["error"]["message"])
            if progress:
                progress(Progress(**said["progress"]))
        raise Misconfigured(f"The load generator ended with status {await process.wait()} and without a word of why.")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _job(plan: Plan, target: Target) -> dict[str, Any]:
    return {
        "plan": plan.to_json(),
        "target": {"url": target.url, "key": target.key, "headers": dict(target.headers)},
    }
