"""The process that sends: `python -m benchmarks.load < job.json` prints progress and the recording, as JSON lines.

A job is {"plan": …, "target": {"url": …}}; `benchmarks.load.apart` writes it and reads what comes back.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

import uvloop

from benchmarks.load.plan import Plan, Target
from benchmarks.load.recording import Recording, Sample
from benchmarks.load.sending import run
from pipeline.errors import FleetfootError

EVERY = 0.25  # seconds between two words of progress
SWITCH = 0.0005  # seconds after which the timer's thread gets the interpreter from whoever computes


class Told:
    """Says how far the run is, at most every now and then."""

    def __init__(self, plan: Plan) -> None:
        early = plan.warm_up_requests or plan.warm_up * (plan.pace.rate or 0.0)
        self._expected = early + plan.seconds * plan.pace.rate if plan.pace.rate else 0.0
        self._ended = 0
        self._answered = 0
        self._last = 0.0

    def __call__(self, sample: Sample) -> None:
        """Counts one more."""
        self._ended += 1
        self._answered += sample.answered
        now = time.perf_counter()
        if now - self._last >= EVERY:
            self._last = now
            say({"progress": {"ended": self._ended, "expected": self._expected, "answered": self._answered}})


def say(line: Any) -> None:
    """One JSON line on standard output."""
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def be_on_time() -> None:
    """Asks for real-time scheduling, where this user and system may: what is due goes before the service that shares
    the machine. On two overcommitted cores a sleep of 10 ms then ended 0.1 to 2.8 ms late (p99) instead of 3.6 to 4.6;
    a nice value of -10 changed nothing."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))


def main() -> None:
    """Reads the job from standard input. Exits 1 where it cannot be done, with the reason as its last line."""
    job = json.loads(sys.stdin.readline())
    plan, target = Plan.from_json(job["plan"]), Target(**job["target"])
    sys.setswitchinterval(SWITCH)
    be_on_time()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # a full collection takes long enough to make a request late
    try:
        recording: Recording = uvloop.run(run(plan, target, Told(plan)))
    except FleetfootError as error:
        say({"error": {"code": error.code, "message": str(error)}})
        sys.exit(1)
    say({"recording": recording.to_json()})


if __name__ == "__main__":
    main()
