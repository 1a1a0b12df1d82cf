"""Small generations on disk, with vectors that a test chooses or that are drawn by a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from pipeline.passages import Passage, Vectors
from pipeline.ports import GenerationRef
from retrieve.encoder import as_vectors
from retrieve.generation import FolderWriter, Generation, GenerationOptions

SEED = 20261130
EMBEDDER = "fake-embedder"
DIMENSIONS = 16


def directions(rows: int, dimensions: int = DIMENSIONS, seed: int = SEED) -> np.ndarray:
    """Random L2-normalised vectors."""
    drawn = np.random.default_rng(seed).standard_normal((rows, dimensions)).astype(np.float32)
    return drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-12)


def writer(passages: Sequence[Passage], options: GenerationOptions | None = None) -> FolderWriter:
    """Its tokenizer knows every word of the passages."""
    words = sorted({word for passage in passages for word in passage.embedded_text().split()})
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0} | {w: n for n, w in enumerate(words, 1)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return FolderWriter(tokenizer, "words", options or GenerationOptions())


def published(
    folder: Path,
    passages: Sequence[Passage],
    vectors: np.ndarray | None = None,
    *,
    collection: str = "handbook",
    number: int = 1,
    options: GenerationOptions | None = None,
) -> GenerationRef:
    """Writes a generation under `folder` and returns what the catalog would say of it."""
    rows: Vectors = as_vectors(directions(len(passages)) if vectors is None else vectors)
    target = folder / f"{collection}-{number}"
    digest = writer(passages, options).write(target, collection, number, passages, rows, EMBEDDER, "chunker")
    return GenerationRef(collection, number, target, digest)


def opened(ref: GenerationRef) -> Generation:
    """Opens what `published` wrote."""
    return Generation.open(ref, embedder=EMBEDDER)
