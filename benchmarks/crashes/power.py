"""Power is cut after every operation of the storage: what the catalog may name then opens, whole.

    python -m benchmarks.crashes.power

The catalog is played by the order of events: it names a generation once its last operation is over, not before.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.errors import FleetfootError
from pipeline.ports import GenerationRef
from retrieve.generation_writing import FolderWriter
from retrieve.storage import Storage
from tests.generations import opened, published, unsynced, writer
from tests.retrieve.test_power_cuts import AFTER, OLD, base, delta, texts
from tests.simulated_disk import Recording, put

Publish = Callable[[FolderWriter, Path, GenerationRef, int], GenerationRef]


@dataclass(frozen=True, slots=True)
class PowerFigures:
    """Operations, states of the disk opened, how many of them differ; `wrong` names what opened not or otherwise."""

    operations: int
    states: int
    distinct: int
    wrong: tuple[str, ...]


def cut_everywhere() -> PowerFigures:
    """A delta, a base, and a compaction of what a delta left; each cut after every operation, in four ways."""
    operations, states, distinct, wrong = 0, 0, set[str](), list[str]()
    for name, publish, first in (("delta", delta, None), ("base", base, None), ("compaction", base, delta)):
        with tempfile.TemporaryDirectory(prefix="fleetfoot-power-") as folder:
            at = Path(folder)
            before = published(at / "live", OLD)
            shown = sorted(passage.text for passage in OLD)
            if first is not None:
                before = first(writer(OLD), before.folder.parent, before, before.number + 1)
                shown = sorted(passage.text for passage in AFTER)
            recording, committed, after = _recorded(at / "live", publish, before)
            operations += len(recording.steps)
            for steps in range(len(recording.steps) + 1):
                for how, disk in recording.cut_after(steps):
                    where = at / "cut"
                    put(disk, where)
                    states += 1
                    distinct.add(f"{name} {_digest(where)}")
                    named = [(before, shown)] if steps <= committed else []
                    if steps >= committed:
                        named.append((after, sorted(passage.text for passage in AFTER)))
                    for ref, wanted in named:
                        moved = replace(ref, folder=where / ref.folder.relative_to(at / "live"))
                        wrong += _wrong(moved, wanted, f"{name}, {steps} operations, {how}")
                    shutil.rmtree(where)
    return PowerFigures(operations, states, len(distinct), tuple(wrong))


def _recorded(live: Path, publish: Publish, before: GenerationRef) -> tuple[Recording, int, GenerationRef]:
    """One publish, and the removal of what it replaced; how many operations came before the catalog's commit."""
    recording = Recording(live)
    made = writer(OLD, storage=Storage(recording, unsynced))  # the disk is simulated
    after = publish(made, before.folder.parent, before, before.number + 1)
    committed = len(recording.steps)
    made.remove(before.folder)
    return recording, committed, after


def _wrong(ref: GenerationRef, wanted: list[str], when: str) -> list[str]:
    try:
        found = texts(opened(ref))
    except (FleetfootError, OSError, ValueError) as error:
        return [f"{when}: {error!r}"]
    return [] if found == wanted else [f"{when}: {found}"]


def _digest(folder: Path) -> str:
    """Of every name and content below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)}\0{path.is_dir()}\0".encode())
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


if __name__ == "__main__":
    print(cut_everywhere())
