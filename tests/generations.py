"""Small generations on disk, with vectors that a test chooses or that are drawn by a seed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from pipeline.passages import Passage, Vectors
from pipeline.ports import GenerationRef, SegmentRef
from retrieve.encoder import as_vectors
from retrieve.generation import Generation
from retrieve.generation_writing import FolderWriter
from retrieve.manifest import NAME, SEGMENTS, Manifest
from retrieve.segment_writing import GenerationOptions
from retrieve.storage import Storage

SEED = 20261130
EMBEDDER = "fake-embedder"
DIMENSIONS = 16


def directions(rows: int, dimensions: int = DIMENSIONS, seed: int = SEED) -> np.ndarray:
    """Random L2-normalised vectors."""
    drawn = np.random.default_rng(seed).standard_normal((rows, dimensions)).astype(np.float32)
    return drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-12)


def writer(
    passages: Sequence[Passage], options: GenerationOptions | None = None, storage: Storage | None = None
) -> FolderWriter:
    """Its tokenizer knows every word of the passages. Without a storage it does not wait for the disk."""
    words = sorted({word for passage in passages for word in passage.embedded_text().split()})
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0} | {w: n for n, w in enumerate(words, 1)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return FolderWriter(tokenizer, "words", options or GenerationOptions(), storage or Storage(sync=unsynced))


def unsynced(_: Path, __: int) -> None:
    """Nobody cuts the power of a test that is not about that."""


def published(
    folder: Path,
    passages: Sequence[Passage],
    vectors: np.ndarray | None = None,
    *,
    collection: str = "handbook",
    number: int = 1,
    options: GenerationOptions | None = None,
) -> GenerationRef:
    """Writes a base, and a generation of it alone, under `folder`; returns what the catalog would say of it."""
    home, made = folder / collection, writer(passages, options)
    rows: Vectors = as_vectors(directions(len(passages)) if vectors is None else vectors)
    return _written(made, home, collection, number, None, made.write_segment(home, passages, rows), ())


def changed(
    before: GenerationRef,
    passages: Sequence[Passage] = (),
    vectors: np.ndarray | None = None,
    *,
    number: int | None = None,
    gone: Collection[str] = (),
    options: GenerationOptions | None = None,
) -> GenerationRef:
    """The next generation: documents are gone, or replaced by a delta of these passages."""
    home, made = before.folder.parent, writer(passages, options)
    rows: Vectors = as_vectors(directions(len(passages)) if vectors is None else vectors)
    base = made.segments(before)[0]
    added = made.write_segment(home, passages, rows, base) if passages else None
    died = {*gone, *(passage.document_id for passage in passages)}
    return _written(made, home, before.collection, number or before.number + 1, before, added, died)


def _written(
    made: FolderWriter,
    home: Path,
    collection: str,
    number: int,
    before: GenerationRef | None,
    added: SegmentRef | None,
    gone: Collection[str],
) -> GenerationRef:
    written = made.write_generation(
        home,
        collection,
        number,
        embedder=EMBEDDER,
        chunker="chunker",
        previous=before,
        keep=[segment.name for segment in made.segments(before)] if before else (),
        gone=gone,
        added=added,
    )
    return GenerationRef(collection, number, home / f"g{number}", written.digest)


def as_first_format(ref: GenerationRef) -> GenerationRef:
    """Makes of a generation of one segment what an earlier version would have written, in its place."""
    manifest = Manifest.read(ref)
    (part,) = manifest.parts
    later = ("attributes.arrow", "documents.npy", "document_rows.npy", "segment.json")
    folder = ref.folder / part.segment.name
    shutil.move(ref.folder.parent / SEGMENTS / part.segment.name, folder)
    for name in later:
        (folder / name).unlink()
    said = json.loads((ref.folder / NAME).read_bytes())
    (segment,) = said["segments"]
    for field in ("kind", "documents", "dimensions", "average_length", "attempt", "dead"):
        del segment[field]
    segment["files"] = {name: each for name, each in segment["files"].items() if name not in later}
    content = json.dumps({**said, "format": 1}).encode()
    (ref.folder / NAME).write_bytes(content)
    return GenerationRef(ref.collection, ref.number, ref.folder, hashlib.sha256(content).hexdigest())


def file_of(ref: GenerationRef, name: str) -> Path:
    """A file of the segment that the generation added."""
    manifest = Manifest.read(ref)
    return manifest.folder(ref.folder, manifest.parts[-1]) / name


def opened(ref: GenerationRef) -> Generation:
    """Opens what was written."""
    return Generation.open(ref, embedder=EMBEDDER)
