"""`make prove-index`: an index that changes while it serves, and loses nothing whatever crashes; one line a promise.

    python -m benchmarks.prove_index [--only power bytes model]

Every part does its own set-up. What is promised and not measured yet is SHORT.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console

from benchmarks.crashes.flips import flip_everywhere
from benchmarks.crashes.power import cut_everywhere
from benchmarks.prove import Part, Proof, run_parts
from tests.oracles.test_living_collection import LivingCollection
from tests.retrieve.test_living_index import LivingIndex

SEQUENCES, STEPS = 60, 20  # of the stateful tests: so many runs of so many steps at most


def main() -> None:
    """Runs every part, or those named, prints a line a promise, exits 1 when one falls short."""
    run_parts(PARTS, __doc__ or "")


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
    with console.status("power cuts"):
        seen = cut_everywhere()
    figure = f"{seen.operations} operations, {seen.distinct} distinct states, {len(seen.wrong)} wrong"
    proof.line("power cut after every operation", figure, "none wrong", ok=seen.distinct > 0 and not seen.wrong)


def rotten(proof: Proof, console: Console) -> None:
    """A flipped byte in any file is found before it serves."""
    with console.status("flipped bytes"):
        seen = flip_everywhere()
    figure = f"{seen.flips} bytes of {seen.files} files, {len(seen.missed)} missed"
    proof.line("a flipped byte is found before it serves", figure, "none missed", ok=seen.flips > 0 and not seen.missed)


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
PARTS: dict[str, Part] = {
    "power": power,
    "bytes": rotten,
    "model": model,
    "unmeasured": unmeasured,
}


if __name__ == "__main__":
    main()
