"""`make prove-index`: an index that changes while it serves, and loses nothing whatever crashes; one line a promise.

    python -m benchmarks.prove_index [--only power bytes model]

Every part does its own set-up. What is promised and not measured yet is SHORT.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console

from benchmarks import flipped
from benchmarks.prove import Proof
from tests.oracles.test_living_collection import LivingCollection
from tests.retrieve import test_power_cuts as power_cuts
from tests.retrieve.test_living_index import LivingIndex

SEQUENCES, STEPS = 60, 20  # of the stateful tests: so many runs of so many steps at most


def main() -> None:
    """Runs every part, or those named, prints a line a promise, exits 1 when one falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to run")
    chosen = parser.parse_args().only
    proof, console = Proof(), Console(width=150, highlight=False)
    for name in chosen:
        began = time.perf_counter()
        proof.attempt(name, lambda part=PARTS[name]: part(proof, console))
        print(f"      {name}: {time.perf_counter() - began:.0f} s", flush=True)
    proof.end()


def model(proof: Proof, console: Console) -> None:
    """Any sequence of add, replace, delete, filter, compact, roll back and crash beside a dictionary and a loop."""
    run = settings(
        max_examples=SEQUENCES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    for name, machine in (("files", LivingIndex), ("catalog and files", LivingCollection)):
        with console.status(f"{SEQUENCES} sequences over {name}"):
            run_state_machine_as_test(machine, settings=run)
        proof.line(f"any sequence equals a dictionary: {name}", f"{SEQUENCES} of up to {STEPS} steps", "all", ok=True)


def power(proof: Proof, console: Console) -> None:
    """Power is cut after every operation of the storage, with what was not synced dropped, torn or there by chance."""
    for name, publish in (("a delta", power_cuts.delta), ("a base", power_cuts.base)):
        with tempfile.TemporaryDirectory(prefix="fleetfoot-power-") as folder, console.status(name):
            states = power_cuts.every_cut(Path(folder), publish)
        proof.line(f"power cut while {name} is published", f"{states} states of the disk, each whole", "all", ok=True)


def rotten(proof: Proof, _: Console) -> None:
    """A flipped byte in any file is found before it serves."""
    with tempfile.TemporaryDirectory(prefix="fleetfoot-flipped-") as folder:
        seen = flipped.measure(Path(folder))
    figure = f"{seen.bytes} bytes of {seen.files} files, {len(seen.unnoticed)} unnoticed"
    proof.line(
        "a flipped byte is found before it serves", figure, "all noticed", ok=seen.bytes > 0 and not seen.unnoticed
    )


def unmeasured(proof: Proof, _: Console) -> None:
    """What is promised and has no measurement yet: a promise that was not looked at is not kept."""
    for name in UNMEASURED:
        proof.line(name, "not measured yet", "shown", ok=False)


UNMEASURED = (
    "every write, sync, rename and commit is a kill point",
    "200 kills of real workers under load",
    "200 publishes under a reading load",
    "one changed document in a million, and its compaction",
    "ingest throughput by a plain script's",
)
PARTS: dict[str, Callable[[Proof, Console], None]] = {
    "power": power,
    "bytes": rotten,
    "model": model,
    "unmeasured": unmeasured,
}


if __name__ == "__main__":
    main()
