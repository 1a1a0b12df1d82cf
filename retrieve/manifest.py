"""The manifest of a generation: what it holds, what made it, and a checksum of every file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from pipeline.errors import Damaged
from pipeline.ports import GenerationRef

FORMAT = 1
NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class FileSum:
    """A file's size in bytes and the hex sha256 of its content."""

    size: int
    sha256: str

    @classmethod
    def of(cls, file: Path) -> FileSum:
        """Reads the whole file."""
        with file.open("rb") as stream:
            return cls(os.fstat(stream.fileno()).st_size, hashlib.file_digest(stream, "sha256").hexdigest())


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One immutable segment. `languages` counts passages by language, "" where it is not known."""

    name: str
    passages: int
    dense: str
    k1: float
    b: float
    languages: Mapping[str, int]
    files: Mapping[str, FileSum]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generation consists of; segments are searched as one, in this order."""

    collection: str
    number: int
    dimensions: int
    embedder: str
    chunker: str
    tokenizer: str
    analysis: str
    segments: tuple[SegmentInfo, ...]

    @property
    def passages(self) -> int:
        """Passages over all segments."""
        return sum(segment.passages for segment in self.segments)

    def content(self) -> bytes:
        """The bytes of the manifest's file; equal manifests have equal bytes."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True, ensure_ascii=False).encode()

    @classmethod
    def read(cls, ref: GenerationRef) -> Manifest:
        """Raises Damaged when the file is missing, or is not the one that was published."""
        try:
            content = (ref.folder / NAME).read_bytes()
        except OSError as error:
            raise damage(ref, f"'{NAME}' cannot be read: {error.strerror}.") from error
        found = hashlib.sha256(content).hexdigest()
        if found != ref.digest:
            raise damage(ref, f"'{NAME}' has sha256 {found}, and {ref.digest} was published.")
        parts: dict[str, Any] = json.loads(content)
        written = parts.pop("format")
        if written != FORMAT:
            raise damage(ref, f"'{NAME}' has format {written}, and this version reads {FORMAT}.")
        segments = tuple(_segment(segment) for segment in parts.pop("segments"))
        return cls(**parts, segments=segments)


class Verifier:
    """Checks files against a manifest: by their content once per host, by size and stamp from then on.

    `stamps` is a folder of this host; a stamp keeps each file's device, inode, size and modification time as they were
    when its content was last read. Without a folder the content is read every time.
    """

    def __init__(self, stamps: Path | None) -> None:
        self._stamps = stamps

    def verify(self, ref: GenerationRef, manifest: Manifest) -> None:
        """Raises Damaged, naming the file, what was expected and what was found."""
        known = self._read(ref.digest)
        seen: dict[str, list[int]] = {}
        for name, expected in _files(manifest):
            file = ref.folder / name
            try:
                state = file.stat()
            except OSError as error:
                raise damage(ref, f"'{name}' is missing: {error.strerror}.") from error
            if state.st_size != expected.size:
                raise damage(ref, f"'{name}' has {state.st_size} bytes, and its manifest says {expected.size}.")
            seen[name] = [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns]
            if known.get(name) != seen[name] and (found := FileSum.of(file)) != expected:
                raise damage(ref, f"'{name}' has sha256 {found.sha256}, and its manifest says {expected.sha256}.")
        if seen != known:
            self._keep(ref.digest, seen)

    def _read(self, digest: str) -> dict[str, list[int]]:
        if self._stamps is None:
            return {}
        try:
            known: object = json.loads((self._stamps / f"{digest}.json").read_bytes())
        except (OSError, ValueError):  # no stamp, or half of one: the content is read
            return {}
        return cast("dict[str, list[int]]", known) if isinstance(known, dict) else {}

    def _keep(self, digest: str, seen: dict[str, list[int]]) -> None:
        if self._stamps is None:
            return
        with suppress(OSError):  # a stamp that cannot be kept costs reading the content again, and nothing else
            self._stamps.mkdir(parents=True, exist_ok=True)
            unfinished = self._stamps / f".{uuid4().hex}"
            unfinished.write_text(json.dumps(seen))
            unfinished.replace(self._stamps / f"{digest}.json")


def damage(ref: GenerationRef, what: str) -> Damaged:
    """The error with its remedy. It reaches callers, so it names no folder of this machine."""
    return Damaged(
        f"'{ref.collection}@{ref.number}' is damaged: {what} Make it anew with `fleetfoot refresh -c {ref.collection}`."
    )


def _files(manifest: Manifest) -> Iterator[tuple[str, FileSum]]:
    for segment in manifest.segments:
        for name, expected in segment.files.items():
            yield f"{segment.name}/{name}", expected


def _segment(parts: dict[str, Any]) -> SegmentInfo:
    files = {name: FileSum(**said) for name, said in parts.pop("files").items()}
    return SegmentInfo(**parts, files=files)
