"""The manifest of a generation: what it holds, what made it, and a checksum of every file.

FORMAT 2 names segments that lie beside the generation and are shared with others; FORMAT 1 had one inside the
generation's own folder. Both are read, only the second is written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pipeline.errors import Damaged
from pipeline.ports import GenerationRef, SegmentRef

FORMAT, FIRST_FORMAT = 2, 1
NAME, SEGMENT_NAME = "manifest.json", "segment.json"
SEGMENTS = "segments"
BASE, DELTA = "base", "delta"
PIECE = 1 << 20  # bytes that are read between two rests


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

    @classmethod
    def slowly(cls, file: Path, rest: Callable[[], None]) -> FileSum:
        """Reads the whole file, a piece at a time, with a rest after each."""
        digest, size = hashlib.sha256(), 0
        with file.open("rb") as stream:
            while piece := stream.read(PIECE):
                digest.update(piece)
                size += len(piece)
                rest()
        return cls(size, digest.hexdigest())

    @classmethod
    def of_content(cls, content: bytes) -> FileSum:
        """Of a file with this content."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One immutable segment, its dead included. `languages` counts passages by language, "" where it is not known.

    `attempt` tells segments apart that are equal but for damage done to the earlier one.
    """

    kind: str
    documents: int
    passages: int
    dimensions: int
    average_length: float
    dense: str
    k1: float
    b: float
    languages: Mapping[str, int]
    files: Mapping[str, FileSum]
    attempt: int = 0
    name: str = ""

    def named(self) -> SegmentInfo:
        """The same under its name, which is made of all the rest."""
        return replace(self, name=f"{self.kind}-{hashlib.sha256(self.content()).hexdigest()[:16]}")

    def content(self) -> bytes:
        """The bytes of the segment's own file, which says everything but its name."""
        said = self.said()
        del said["name"]
        return _json(said)

    def said(self) -> dict[str, object]:
        """All of it, as JSON has it. (`asdict` takes ten times as long, and a process that serves waits for it.)"""
        files = {name: {"size": file.size, "sha256": file.sha256} for name, file in self.files.items()}
        values: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "files": files}

    def ref(self) -> SegmentRef:
        """As ingest knows it."""
        return SegmentRef(self.name, self.kind, self.documents, self.passages, self.average_length)

    @classmethod
    def read(cls, folder: Path) -> SegmentInfo:
        """Raises OSError when there is none, ValueError when it is not what its folder's name says."""
        info = segment_of(json.loads((folder / SEGMENT_NAME).read_bytes())).named()
        if info.name != folder.name:
            raise ValueError(f"'{folder.name}/{SEGMENT_NAME}' is not what it was when the folder was named")
        return info


@dataclass(frozen=True, slots=True)
class Dead:
    """The tombstones of one segment: of how many documents and passages, and the file that has the rows."""

    documents: int
    passages: int
    file: FileSum


@dataclass(frozen=True, slots=True)
class Part:
    """A segment as one generation has it."""

    segment: SegmentInfo
    dead: Dead | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generation consists of; its segments are searched as one, in this order."""

    collection: str
    number: int
    dimensions: int
    embedder: str
    chunker: str
    tokenizer: str
    analysis: str
    parts: tuple[Part, ...]
    format: int = FORMAT

    @property
    def passages(self) -> int:
        """Live passages over all segments."""
        return sum(part.segment.passages - (part.dead.passages if part.dead else 0) for part in self.parts)

    @property
    def documents(self) -> int:
        """Live documents over all segments; 0 in the first format, which does not count them."""
        return sum(part.segment.documents - (part.dead.documents if part.dead else 0) for part in self.parts)

    def languages(self) -> Mapping[str, int]:
        """Passages by language over all segments, as one segment of all of them would count."""
        counts: dict[str, int] = {}
        for part in self.parts:
            for language, count in part.segment.languages.items():
                counts[language] = counts.get(language, 0) + count
        return counts

    def folder(self, generation: Path, part: Part) -> Path:
        """Where a segment lies, given the generation's folder."""
        above = generation if self.format == FIRST_FORMAT else generation.parent / SEGMENTS
        return above / part.segment.name

    def files(self, part: Part) -> Mapping[str, FileSum]:
        """All that lies in a segment's folder, the file that describes the segment included."""
        files = part.segment.files
        if self.format == FIRST_FORMAT:
            return files
        return {**files, SEGMENT_NAME: FileSum.of_content(part.segment.content())}

    def content(self) -> bytes:
        """The bytes of the manifest's file; equal manifests have equal bytes."""
        said = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "parts"}
        parts = [{**part.segment.said(), "dead": part.dead and asdict(part.dead)} for part in self.parts]
        return _json({**said, "segments": parts})

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
        said: dict[str, Any] = json.loads(content)
        if said["format"] not in {FORMAT, FIRST_FORMAT}:
            raise damage(
                ref, f"'{NAME}' has format {said['format']}, and this version reads {FIRST_FORMAT} to {FORMAT}."
            )
        read = _part_of_first if said["format"] == FIRST_FORMAT else _part
        dimensions = int(said["dimensions"])
        parts = tuple(read(each, dimensions) for each in said.pop("segments"))
        return cls(**said, parts=parts)


def dead_name(place: int) -> str:
    """The file of tombstones of the segment at that place of a generation."""
    return f"dead-{place}.npy"


def damage(ref: GenerationRef, what: str) -> Damaged:
    """The error with its remedy. It reaches callers, so it names no folder of this machine."""
    return Damaged(
        f"'{ref.collection}@{ref.number}' is damaged: {what} Make it anew with `fleetfoot refresh -c {ref.collection}`."
    )


def segment_of(said: Mapping[str, Any]) -> SegmentInfo:
    """A segment from the JSON that describes it."""
    files = {name: FileSum(**each) for name, each in said["files"].items()}
    values: dict[str, Any] = {**said, "files": files}
    return SegmentInfo(**values)


def _part(said: dict[str, Any], _: int) -> Part:
    dead = said.pop("dead")
    return Part(segment_of(said), dead and Dead(dead["documents"], dead["passages"], FileSum(**dead["file"])))


def _part_of_first(said: dict[str, Any], dimensions: int) -> Part:
    """The first format knew neither documents nor average lengths, nothing died in it, and no file described it."""
    return Part(segment_of({**said, "kind": BASE, "documents": 0, "dimensions": dimensions, "average_length": 0.0}))


def _json(value: Mapping[str, object]) -> bytes:
    """On one line: with line breaks Python's encoder is one in Python, and takes ten times as long."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
