"""Generations are written here: segments by `retrieve.segment_writing`, and the manifests that name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.errors import Conflict, InvalidInput
from pipeline.passages import Passage, Vectors
from pipeline.ports import GenerationRef, SegmentRef, Written
from retrieve.analysis import FINGERPRINT
from retrieve.document_rows import DocumentRows
from retrieve.encoder import as_rows, open_tokenizer
from retrieve.generation import check_same
from retrieve.manifest import (
    BASE,
    DELTA,
    FIRST_FORMAT,
    NAME,
    SEGMENTS,
    Dead,
    FileSum,
    Manifest,
    Part,
    SegmentInfo,
    dead_name,
)
from retrieve.model_folder import ModelFolder
from retrieve.segment_writing import GenerationOptions, SegmentWriter
from retrieve.storage import Storage
from retrieve.verifying import dead_rows


class FolderWriter:
    """Implements GenerationWriter and GenerationRemover."""

    def __init__(
        self, tokenizer: Tokenizer, fingerprint: str, options: GenerationOptions, storage: Storage | None = None
    ) -> None:
        self._fingerprint = fingerprint
        self._options = options
        self._storage = storage or Storage()
        self._segments = SegmentWriter(tokenizer, options, self._storage)

    @classmethod
    def open(cls, model: ModelFolder, options: GenerationOptions | None = None) -> FolderWriter:
        """Takes token ids from the model's tokenizer."""
        return cls(open_tokenizer(model), model.tokenizer_fingerprint, options or GenerationOptions())

    def write_segment(
        self, home: Path, passages: Iterable[Passage], vectors: Vectors, base: SegmentRef | None = None
    ) -> SegmentRef:
        """Implements GenerationWriter."""
        return self._segments.write(home / SEGMENTS, passages, as_rows(vectors), base).ref()

    def write_generation(
        self,
        home: Path,
        collection: str,
        number: int,
        *,
        embedder: str,
        chunker: str,
        previous: GenerationRef | None,
        keep: Sequence[str],
        gone: Collection[str],
        added: SegmentRef | None,
        gone_from_added: Collection[str] = (),
    ) -> Written:
        """Implements GenerationWriter."""
        kept = self._kept(home, previous, keep, gone, embedder) if previous is not None and keep else []
        if added is not None:
            fresh = _dying(home, Buried(_read(home, added.name)), gone_from_added)
            # What changed back has the very segment that it had before: it is there once, and alive.
            kept = [each for each in kept if each.segment.name != added.name]
            kept = [fresh, *kept] if added.kind == BASE else [*kept, fresh]
        alive = [each for each in kept if not each.forgotten]
        return self._write(home / f"g{number}", collection, number, alive, embedder, chunker)

    def segments(self, ref: GenerationRef) -> tuple[SegmentRef, ...]:
        """Implements GenerationWriter."""
        manifest = Manifest.read(ref)
        bm25 = self._options.bm25
        same = (manifest.tokenizer, manifest.analysis) == (self._fingerprint, FINGERPRINT) and all(
            (part.segment.k1, part.segment.b) == (bm25.k1, bm25.b) for part in manifest.parts
        )
        if manifest.format == FIRST_FORMAT or not same:
            return ()
        return tuple(part.segment.ref() for part in manifest.parts)

    def remove(self, folder: Path) -> None:
        """Implements GenerationRemover."""
        self._storage.remove(folder)

    def _kept(
        self, home: Path, previous: GenerationRef, keep: Sequence[str], gone: Collection[str], embedder: str
    ) -> list[Buried]:
        """Raises InvalidInput for a segment that the previous generation does not have."""
        manifest = Manifest.read(previous)
        check_same("embedder", manifest.embedder, embedder, previous)
        check_same("text analysis", manifest.analysis, FINGERPRINT, previous)
        check_same("tokenizer", manifest.tokenizer, self._fingerprint, previous)
        missing = set(keep) - {part.segment.name for part in manifest.parts}
        if missing or manifest.format == FIRST_FORMAT:
            named = ", ".join(sorted(missing or keep))
            raise InvalidInput(
                f"Generation {previous.number} of '{previous.collection}' has nothing to keep of {named}."
            )
        return [
            _dying(
                home,
                Buried(part.segment, dead_rows(previous, place, part.dead), part.dead.documents if part.dead else 0),
                gone,
            )
            for place, part in enumerate(manifest.parts)
            if part.segment.name in set(keep)
        ]

    def _write(
        self,
        folder: Path,
        collection: str,
        number: int,
        buried: Sequence[Buried],
        embedder: str,
        chunker: str,
    ) -> Written:
        storage = self._storage
        dimensions = {each.segment.dimensions for each in buried}
        if len(dimensions) > 1:
            raise InvalidInput(f"Segments of '{collection}' have vectors of {sorted(dimensions)} dimensions.")
        storage.make_folder(folder.parent)
        if folder.exists():
            raise _taken(folder)
        unfinished = storage.make_unfinished(folder.parent)
        try:
            parts = tuple(self._part(unfinished, place, each) for place, each in enumerate(buried))
            made_by = (embedder, chunker, self._fingerprint, FINGERPRINT)
            manifest = Manifest(collection, number, max(dimensions, default=0), *made_by, parts)
            content = manifest.content()
            storage.write(unfinished / NAME, content)
            storage.settle(unfinished)
            storage.finish(unfinished, folder)
        except BaseException:
            storage.discard(unfinished)
            raise
        segments = tuple(part.segment.ref() for part in parts)
        return Written(FileSum.of_content(content).sha256, segments, manifest.documents, manifest.passages)

    def _part(self, unfinished: Path, place: int, buried: Buried) -> Part:
        """Writes the tombstones, where there are any."""
        if len(buried.rows) == 0:
            return Part(buried.segment)
        content = _npy(buried.rows)
        self._storage.write(unfinished / dead_name(place), content)
        return Part(buried.segment, Dead(buried.documents, len(buried.rows), FileSum.of_content(content)))


@dataclass(frozen=True, slots=True, eq=False)
class Buried:
    """A segment that is about to be named, its dead rows, ascending, and of how many documents they are."""

    segment: SegmentInfo
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    documents: int = 0

    @property
    def forgotten(self) -> bool:
        """Whether nothing of a delta is alive, so that nobody misses it."""
        return self.segment.kind == DELTA and len(self.rows) == self.segment.passages


def _dying(home: Path, before: Buried, gone: Collection[str]) -> Buried:
    """Raises InvalidInput when the segment is not there."""
    folder = home / SEGMENTS / before.segment.name
    if not folder.is_dir():
        raise _absent(folder.name)
    doomed = DocumentRows.open(folder).rows_of(gone, before.rows) if gone else None
    if doomed is None or len(doomed.rows) == 0:
        return before
    return replace(
        before, rows=np.sort(np.concatenate([before.rows, doomed.rows])), documents=before.documents + doomed.documents
    )


def _read(home: Path, name: str) -> SegmentInfo:
    try:
        return SegmentInfo.read(home / SEGMENTS / name)
    except (OSError, ValueError) as error:
        raise _absent(name) from error


def _absent(name: str) -> InvalidInput:
    return InvalidInput(f"The segment {name} is not there, or not as it was written; write it again.")


def _taken(folder: Path) -> Conflict:
    return Conflict(f"'{folder}' exists. A generation is never rewritten; give it a number of its own.")


def _npy(rows: NDArray[np.int64]) -> bytes:
    stream = BytesIO()
    np.save(stream, rows, allow_pickle=False)
    return stream.getvalue()
