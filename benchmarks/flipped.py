"""One byte is flipped in every file of a generation in turn: it is found before the generation serves.

    python -m benchmarks.flipped

A base, a delta and tombstones; in each file the first byte, the last and some between. The generation is opened as by a
process that has never seen it. What serves in its place is shown by `tests/service/test_damage.py`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import Damaged
from tests.fakes_shelf import make_passage
from tests.generations import changed, opened, published

OFFSETS = 16  # in each file


@dataclass(frozen=True, slots=True)
class Flipped:
    """How many files, how many bytes in them were flipped, and which of those went unnoticed."""

    files: int
    bytes: int
    unnoticed: tuple[str, ...]


def measure(folder: Path) -> Flipped:
    """Writes a generation under `folder`, and opens it once for every flipped byte."""
    before = published(folder, [make_passage(f"doc{number}", 0, f"tram {number}") for number in range(40)])
    ref = changed(before, [make_passage("doc2", 0, "ferry 2")], gone=["doc9"])
    opened(ref)
    shown = {ref.folder, *(each for each in (ref.folder.parent / "segments").iterdir() if each.is_dir())}
    files = sorted(file for part in shown for file in part.rglob("*") if file.is_file() and file.stat().st_size)
    unnoticed: list[str] = []
    flipped = 0
    for file in files:
        content = file.read_bytes()
        for offset in sorted({round(step * (len(content) - 1) / (OFFSETS - 1)) for step in range(OFFSETS)}):
            file.write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
            flipped += 1
            try:
                opened(ref)
            except Damaged:
                continue
            finally:
                file.write_bytes(content)
            unnoticed.append(f"{file.name} at {offset}")
    opened(ref)
    return Flipped(len(files), flipped, tuple(unnoticed))


def main() -> None:
    """Prints what was found."""
    with tempfile.TemporaryDirectory() as folder:
        print(measure(Path(folder)))


if __name__ == "__main__":
    main()
