"""Load from wrk, a compiled client: a closed loop of N connections, each asking as soon as it was answered.

A closed loop waits for a slow service and so hides how late it would be for those who do not wait: its percentiles say
what its N callers saw, and nothing of an open load. (`fleetfoot bench` is the open loop.) Every status is counted, and
whether an answer says that something was given up.

wrk is taken from PATH. On Debian it is fetched otherwise, by apt's own client, and unpacked under .bench; nothing is
installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[1]
UNPACKED = ROOT / ".bench" / "wrk"
PACKAGES = ("wrk", "libluajit-5.1-2", "libluajit-5.1-common")

# Counters are globals, which is where `thread:get` looks.
SCRIPT = """
bodies, at, good, bad, short = {}, 0, 0, 0, 0
function init(arguments)
  for line in io.lines(arguments[1]) do bodies[#bodies + 1] = line end
end
function request()
  at = at % #bodies + 1
  return wrk.format("POST", nil, {["content-type"] = "application/json"}, bodies[at])
end
function response(status, headers, body)
  if status == 200 then good = good + 1 else bad = bad + 1 end
  if status == 200 and not body:find('"degraded":%[%]') then short = short + 1 end
end
local thread_of
function setup(thread) thread_of = thread end
function done(summary, latency, requests)
  local good, bad, short = thread_of:get("good"), thread_of:get("bad"), thread_of:get("short")
  local errors = summary.errors
  io.write(string.format(
    'FIGURES {"requests": %d, "microseconds": %d, "good": %d, "bad": %d, "degraded": %d, "socket_errors": %d,' ..
    ' "p50": %.3f, "p90": %.3f, "p99": %.3f}\\n',
    summary.requests, summary.duration, good, bad, short,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(90) / 1000, latency:percentile(99) / 1000))
end
"""


class NoWrk(RuntimeError):
    """There is no wrk, and none could be fetched; the message says why."""


@dataclass(frozen=True, slots=True)
class Load:
    """What N callers saw. `rate` counts answers with status 200 a second, times are milliseconds; `lap` is how often
    all bodies were sent (above 1 some were repeated)."""

    callers: int
    rate: float
    p50: float
    p90: float
    p99: float
    answered: int
    refused: int
    degraded: int
    socket_errors: int
    lap: float


def load(url: str, bodies: Sequence[str], *, callers: int, seconds: int) -> Load:
    """Posts the bodies in turn for so long. One thread of wrk is enough for some ten thousand requests a second."""
    program, environment = find()
    with tempfile.TemporaryDirectory() as folder:
        script, file = Path(folder) / "ask.lua", Path(folder) / "bodies.jsonl"
        script.write_text(SCRIPT)
        file.write_text("".join(f"{body}\n" for body in bodies))
        command: list[str | Path] = [
            program,
            "-t1",
            f"-c{callers}",
            f"-d{seconds}s",
            "--timeout",
            "10s",
            "-s",
            script,
            url,
            "--",
            file,
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = next((line for line in done.stdout.splitlines() if line.startswith("FIGURES ")), None)
    if done.returncode != 0 or said is None:
        raise RuntimeError(f"wrk ended with status {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    figures = json.loads(said.removeprefix("FIGURES "))
    return Load(
        callers,
        figures["good"] / figures["microseconds"] * 1e6,
        figures["p50"],
        figures["p90"],
        figures["p99"],
        figures["good"],
        figures["bad"],
        figures["degraded"],
        figures["socket_errors"],
        figures["requests"] / len(bodies),
    )


def together(loads: Sequence[Load]) -> Load:
    """Several runs of the same kind as one: counts added, rates and percentiles averaged."""
    return Load(
        loads[0].callers,
        mean(each.rate for each in loads),
        mean(each.p50 for each in loads),
        mean(each.p90 for each in loads),
        mean(each.p99 for each in loads),
        sum(each.answered for each in loads),
        sum(each.refused for each in loads),
        sum(each.degraded for each in loads),
        sum(each.socket_errors for each in loads),
        max(each.lap for each in loads),
    )


def find() -> tuple[Path, dict[str, str]]:
    """wrk and the environment it runs in. Raises NoWrk."""
    if installed := on_path():
        return installed, dict(os.environ)
    program = UNPACKED / "usr" / "bin" / "wrk"
    if not program.exists():
        _unpack()
    libraries = ":".join(str(folder) for folder in sorted((UNPACKED / "usr" / "lib").glob("*-linux-gnu")))
    return program, {**os.environ, "LD_LIBRARY_PATH": libraries}


def on_path() -> Path | None:
    """The machine's own wrk, if it has one."""
    found = shutil.which("wrk")
    return Path(found) if found else None


def _unpack() -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise NoWrk("wrk is not on PATH, and this is no Debian to fetch it from")
    with tempfile.TemporaryDirectory() as folder:
        fetched = subprocess.run(
            ["apt-get", "download", *PACKAGES], cwd=folder, capture_output=True, text=True, check=False, timeout=120
        )
        if fetched.returncode != 0:
            raise NoWrk(f"wrk is not on PATH, and apt-get could not fetch it: {fetched.stderr.strip()[-200:]}")
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, UNPACKED], check=True)
