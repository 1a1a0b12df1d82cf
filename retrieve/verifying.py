"""Files are checked against their checksums: by content once per host, by size and stamp from then on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Damaged
from pipeline.ports import GenerationRef
from retrieve.giving_way import give_way
from retrieve.manifest import Dead, FileSum, Manifest, Part, damage, dead_name


class Verifier:
    """Knows which segments have been read through on this host.

    `stamps` is a folder of this host; a segment's stamp keeps each file's device, inode, size and modification time as
    they were when its content was last read. Without a folder the content is read every time. Generations share
    segments, so a new one costs what is new in it.
    """

    def __init__(self, stamps: Path | None) -> None:
        self._stamps = stamps

    def verify(self, ref: GenerationRef, manifest: Manifest, part: Part) -> None:
        """One segment of a generation. Raises Damaged, naming the file, what was expected and what was found."""
        known = self._read(manifest.folder(ref.folder, part))
        self._check(ref, manifest, part, known, FileSum.of)

    def scrub(self, ref: GenerationRef, manifest: Manifest, rest: Callable[[], None] | None = None) -> None:
        """Reads all of a generation again, whatever the stamps say: a disk may lose a bit that nobody touched.

        `rest` is called after each megabyte, to let others have the disk and the processor. Raises Damaged; the segment
        has no stamp then, so that nobody opens it by that.
        """
        for place, part in enumerate(manifest.parts):
            try:
                self._check(ref, manifest, part, {}, partial(FileSum.slowly, rest=rest or give_way))
            except Damaged:
                self._forget(manifest.folder(ref.folder, part))
                raise
            dead_rows(ref, place, part.dead)

    def forget_removed(self) -> int:
        """Deletes the stamps of segments that are no longer there; returns how many."""
        removed = 0
        for file in sorted(self._stamps.glob("*.json")) if self._stamps else ():
            folder = _parsed(file).get("folder")
            if not (isinstance(folder, str) and Path(folder).is_dir()):
                file.unlink(missing_ok=True)
                removed += 1
        return removed

    def _check(
        self,
        ref: GenerationRef,
        manifest: Manifest,
        part: Part,
        known: dict[str, list[int]],
        read: Callable[[Path], FileSum],
    ) -> None:
        folder = manifest.folder(ref.folder, part)
        seen: dict[str, list[int]] = {}
        for name, expected in manifest.files(part).items():
            said = f"'{folder.name}/{name}'"
            try:
                state = (folder / name).stat()
            except OSError as error:
                raise damage(ref, f"{said} is missing: {error.strerror}.") from error
            if state.st_size != expected.size:
                raise damage(ref, f"{said} has {state.st_size} bytes, and its manifest says {expected.size}.")
            seen[name] = [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns]
            if known.get(name) != seen[name] and (found := read(folder / name)) != expected:
                raise damage(ref, f"{said} has sha256 {found.sha256}, and its manifest says {expected.sha256}.")
            give_way()
        if seen != known:
            self._keep(folder, seen)

    def _stamp(self, folder: Path) -> Path | None:
        """By place, not by name alone: equal segments of two collections are different files."""
        if self._stamps is None:
            return None
        place = hashlib.sha256(str(folder.parent.resolve()).encode()).hexdigest()[:16]
        return self._stamps / f"{folder.name}.{place}.json"

    def _read(self, folder: Path) -> dict[str, list[int]]:
        """No stamp, or half of one, is no stamp: the content is read."""
        stamp = self._stamp(folder)
        files = _parsed(stamp).get("files") if stamp else None
        return cast("dict[str, list[int]]", files) if isinstance(files, dict) else {}

    def _keep(self, folder: Path, seen: dict[str, list[int]]) -> None:
        stamp = self._stamp(folder)
        if stamp is None:
            return
        with suppress(OSError):  # a stamp that cannot be kept costs reading the content again, and nothing else
            stamp.parent.mkdir(parents=True, exist_ok=True)
            unfinished = stamp.with_name(f".{uuid4().hex}")
            unfinished.write_text(json.dumps({"folder": str(folder.resolve()), "files": seen}))
            unfinished.replace(stamp)

    def _forget(self, folder: Path) -> None:
        stamp = self._stamp(folder)
        if stamp is not None:
            with suppress(OSError):
                stamp.unlink(missing_ok=True)


def dead_rows(ref: GenerationRef, place: int, dead: Dead | None) -> NDArray[np.int64]:
    """The tombstones of the segment at `place`, ascending. They are small, so they are read in full every time.

    Raises Damaged.
    """
    if dead is None:
        return np.empty(0, np.int64)
    name = dead_name(place)
    try:
        content = (ref.folder / name).read_bytes()
    except OSError as error:
        raise damage(ref, f"'{name}' is missing: {error.strerror}.") from error
    if len(content) != dead.file.size:
        raise damage(ref, f"'{name}' has {len(content)} bytes, and its manifest says {dead.file.size}.")
    if (found := FileSum.of_content(content)) != dead.file:
        raise damage(ref, f"'{name}' has sha256 {found.sha256}, and its manifest says {dead.file.sha256}.")
    rows: NDArray[np.int64] = np.load(BytesIO(content), allow_pickle=False)
    return rows


def _parsed(stamp: Path) -> dict[str, Any]:
    try:
        found: object = json.loads(stamp.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
