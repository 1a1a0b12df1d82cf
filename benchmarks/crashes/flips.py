"""One byte of one file is flipped: opening finds it and names the file, and the generation before opens as ever.

python -m benchmarks.crashes.flips
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import Damaged
from pipeline.ports import GenerationRef
from retrieve.manifest import Manifest
from tests.generations import opened, published, writer
from tests.retrieve.test_power_cuts import OLD, base, delta, texts


@dataclass(frozen=True, slots=True)
class FlipFigures:
    """Files and single flips tried; `missed` names each flip not found, or that hurt what was before."""

    files: int
    flips: int
    missed: tuple[str, ...]


def flip_everywhere(offsets: int = 9) -> FlipFigures:
    """Every file that a new generation adds, as a delta and as a base, at so many places from first byte to last."""
    files, flips, missed = 0, 0, list[str]()
    shown = sorted(passage.text for passage in OLD)
    for name, publish in (("delta", delta), ("base", base)):
        with tempfile.TemporaryDirectory(prefix="fleetfoot-flips-") as folder:
            before = published(Path(folder), OLD)
            after = publish(writer(OLD), before.folder.parent, before, 2)
            texts(opened(after))  # else nothing below could be trusted
            for file in _added(after):
                files += 1
                whole = file.read_bytes()
                for at in sorted({round(part * (len(whole) - 1) / (offsets - 1)) for part in range(offsets)}):
                    flips += 1
                    file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
                    if not _found(after):
                        missed.append(f"{name}: {file.name}, byte {at} is not found")
                    if texts(opened(before)) != shown:
                        missed.append(f"{name}: {file.name}, byte {at} hurts the generation before")
                file.write_bytes(whole)
    return FlipFigures(files, flips, tuple(missed))


def _added(ref: GenerationRef) -> Iterator[Path]:
    """The files of the segment that was added last, and of the generation's own folder."""
    manifest = Manifest.read(ref)
    for folder in (manifest.folder(ref.folder, manifest.parts[-1]), ref.folder):
        for file in sorted(folder.iterdir()):
            if file.stat().st_size:
                yield file


def _found(ref: GenerationRef) -> bool:
    try:
        opened(ref)
    except Damaged:
        return True
    return False


if __name__ == "__main__":
    print(flip_everywhere())
