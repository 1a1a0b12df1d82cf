"""A generation: the only thing that is searched. Written and opened here.

    manifest.json                       what it holds, what made it, a sha256 of every file below
    base-<16 hex digits>/               one segment, named by its content
        passages.arrow                  the passages
        vectors.faiss  vectors.npy      the dense index; the rows themselves
        terms.bin  *_offsets.npy  …     the postings (retrieve.postings)
        tokens.npy  token_offsets.npy   token ids of what was embedded (title, headings, text), end to end
        token_counts.npy                tokens of each text
        signatures.npy  hashes.npy      for near and for exact duplicates

Files are never rewritten. Everything is mapped when a generation is opened and stays readable until the last request
on it has finished, even when its folder is deleted meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.errors import Conflict, InvalidInput, WrongFingerprint
from pipeline.passages import Passage, Vectors
from pipeline.ports import GenerationRef
from retrieve.analysis import FINGERPRINT, QueryAnalyzer
from retrieve.dense import DenseIndex, DenseOptions, DenseSearch
from retrieve.dense_building import write_dense
from retrieve.duplicates import signatures
from retrieve.encoder import as_rows, open_tokenizer
from retrieve.lexical import LexicalIndex
from retrieve.manifest import NAME, FileSum, Manifest, SegmentInfo, Verifier, damage
from retrieve.model_folder import ModelFolder
from retrieve.passage_table import PassageTable, PassageTableWriter
from retrieve.postings import Bm25Options, Postings, PostingsBuilder

PASSAGES, INDEX, VECTORS = "passages.arrow", "vectors.faiss", "vectors.npy"
TOKENS, TOKEN_OFFSETS, TOKEN_COUNTS = "tokens.npy", "token_offsets.npy", "token_counts.npy"
SIGNATURES, HASHES = "signatures.npy", "hashes.npy"
AT_ONCE = 1024  # passages tokenised together


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """How a generation is built; opening reads what `dense` says of searching."""

    bm25: Bm25Options = field(default_factory=Bm25Options)
    dense: DenseOptions = field(default_factory=DenseOptions)


class FolderWriter:
    """Implements GenerationWriter: one folder a generation, which is there completely or not at all."""

    def __init__(self, tokenizer: Tokenizer, fingerprint: str, options: GenerationOptions) -> None:
        self._tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._options = options

    @classmethod
    def open(cls, model: ModelFolder, options: GenerationOptions | None = None) -> FolderWriter:
        """Takes token ids from the model's tokenizer."""
        return cls(open_tokenizer(model), model.tokenizer_fingerprint, options or GenerationOptions())

    def write(
        self,
        folder: Path,
        collection: str,
        number: int,
        passages: Iterable[Passage],
        vectors: Vectors,
        embedder: str,
        chunker: str,
    ) -> str:
        """Raises Conflict when the folder is there, InvalidInput when passages and vectors are not equally many."""
        if folder.exists():
            raise Conflict(f"'{folder}' exists. A generation is never rewritten; give it a number of its own.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = folder.with_name(f".{folder.name}.{uuid4().hex}")
        unfinished.mkdir()
        try:
            segment = self._segment(unfinished, passages, as_rows(vectors))
            manifest = Manifest(
                collection, number, vectors.shape[1], embedder, chunker, self._fingerprint, FINGERPRINT, (segment,)
            )
            content = manifest.content()
            (unfinished / NAME).write_bytes(content)
            _sync(unfinished / NAME)
            _sync(unfinished)
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        _sync(folder.parent)
        return hashlib.sha256(content).hexdigest()

    def _segment(self, parent: Path, passages: Iterable[Passage], vectors: NDArray[np.float32]) -> SegmentInfo:
        folder = parent / "unfinished"
        folder.mkdir()
        columns = self._columns(folder / PASSAGES, passages)
        if len(columns.counts) != len(vectors):
            raise InvalidInput(
                f"There are {len(columns.counts)} passages and {len(vectors)} vectors; each passage needs its own."
            )
        dense = write_dense(folder / INDEX, vectors, self._options.dense)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(columns.lengths, dtype=np.int64)])
        tokens = np.concatenate([np.empty(0, np.int32), *columns.tokens])
        arrays: dict[str, NDArray[np.generic]] = {
            VECTORS: vectors,
            TOKENS: tokens,
            TOKEN_OFFSETS: offsets,
            TOKEN_COUNTS: np.array(columns.counts, np.int32),
            SIGNATURES: signatures(tokens, offsets),
            HASHES: np.frombuffer(b"".join(columns.hashes), np.uint64).reshape(-1, 2),
        }
        for name, content in {**arrays, **columns.postings.build().files()}.items():
            if isinstance(content, np.ndarray):
                np.save(folder / name, content, allow_pickle=False)
            else:
                (folder / name).write_bytes(content)
        files: dict[str, FileSum] = {}
        for file in sorted(folder.iterdir()):
            _sync(file)
            files[file.name] = FileSum.of(file)
        _sync(folder)
        sums = "".join(f"{name} {file.sha256}\n" for name, file in files.items())
        name = f"base-{hashlib.sha256(sums.encode()).hexdigest()[:16]}"
        folder.rename(parent / name)
        bm25 = self._options.bm25
        languages = dict(sorted(columns.languages.items()))
        return SegmentInfo(name, len(vectors), dense, bm25.k1, bm25.b, languages, files)

    def _columns(self, file: Path, passages: Iterable[Passage]) -> Columns:
        """One pass over the passages, which need not fit into memory."""
        columns = Columns(PostingsBuilder(self._options.bm25))
        with PassageTableWriter(file) as table:
            for some in _runs(passages, AT_ONCE):
                texts = [passage.embedded_text() for passage in some]
                for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False):
                    columns.tokens.append(np.array(encoding.ids, np.int32))
                    columns.lengths.append(len(encoding.ids))
                for passage in some:
                    table.add(passage)
                    columns.add(passage)
        return columns


@dataclass(frozen=True, slots=True)
class Columns:
    """What is collected while passages go by."""

    postings: PostingsBuilder
    tokens: list[NDArray[np.int32]] = field(default_factory=list["NDArray[np.int32]"])
    lengths: list[int] = field(default_factory=list[int])
    counts: list[int] = field(default_factory=list[int])
    hashes: list[bytes] = field(default_factory=list[bytes])
    languages: Counter[str] = field(default_factory=Counter[str])

    def add(self, passage: Passage) -> None:
        """Everything but the token ids."""
        self.postings.add(passage.embedded_text(), passage.language)
        self.counts.append(passage.tokens)
        self.hashes.append(hashlib.blake2b(passage.content_hash.encode(), digest_size=16).digest())
        self.languages[passage.language or ""] += 1


@dataclass(frozen=True, slots=True)
class Generation:
    """An opened generation. Safe to use from any thread; `dense` from as many as it says.

    Shapes: `vectors` `[passages, dimensions] float32`, `tokens` `[all tokens] int32`, `token_offsets` `[passages + 1]
    int64`, `token_counts` `[passages] int32`, `signatures` `[passages] uint64`, `hashes` `[passages, 2] uint64`.
    """

    ref: GenerationRef
    manifest: Manifest
    table: PassageTable
    lexical: LexicalIndex
    dense: DenseSearch
    analyzer: QueryAnalyzer
    vectors: NDArray[np.float32]
    tokens: NDArray[np.int32]
    token_offsets: NDArray[np.int64]
    token_counts: NDArray[np.int32]
    signatures: NDArray[np.uint64]
    hashes: NDArray[np.uint64]

    @classmethod
    def open(
        cls,
        ref: GenerationRef,
        *,
        embedder: str,
        verifier: Verifier | None = None,
        options: DenseOptions | None = None,
        dense: Callable[[NDArray[np.float32]], DenseSearch] | None = None,
    ) -> Generation:
        """Verifies and maps. `dense`, where given, searches the vectors instead of the FAISS file, as on a GPU.

        Raises Damaged naming the file, and WrongFingerprint when `embedder`, which encodes the queries, is not the one
        that made the vectors, or when terms are made differently now.
        """
        manifest = Manifest.read(ref)
        _same("embedder", manifest.embedder, embedder, ref)
        _same("text analysis", manifest.analysis, FINGERPRINT, ref)
        if len(manifest.segments) != 1:
            raise damage(ref, f"it has {len(manifest.segments)} segments, and this version reads one.")
        (verifier or Verifier(None)).verify(ref, manifest)
        segment = manifest.segments[0]
        folder = ref.folder / segment.name

        def mapped(name: str) -> NDArray[np.generic]:
            return np.asarray(np.load(folder / name, mmap_mode="r", allow_pickle=False))

        vectors = cast("NDArray[np.float32]", mapped(VECTORS))
        return cls(
            ref,
            manifest,
            PassageTable.open(folder / PASSAGES),
            LexicalIndex(Postings.open(folder, segment.passages)),
            dense(vectors) if dense else DenseIndex.open(folder / INDEX, vectors, options or DenseOptions()),
            QueryAnalyzer(_languages(segment.languages)),
            vectors,
            cast("NDArray[np.int32]", mapped(TOKENS)),
            cast("NDArray[np.int64]", mapped(TOKEN_OFFSETS)),
            cast("NDArray[np.int32]", mapped(TOKEN_COUNTS)),
            cast("NDArray[np.uint64]", mapped(SIGNATURES)),
            cast("NDArray[np.uint64]", mapped(HASHES)),
        )

    @property
    def rows(self) -> int:
        """How many passages there are."""
        return self.manifest.passages

    @property
    def name(self) -> str:
        """As `handbook@7`."""
        return f"{self.ref.collection}@{self.ref.number}"


def _runs(passages: Iterable[Passage], length: int) -> Iterator[list[Passage]]:
    remaining = iter(passages)
    while some := list(islice(remaining, length)):
        yield some


def _languages(counts: Mapping[str, int]) -> list[str | None]:
    return [language or None for language in sorted(counts, key=lambda language: (-counts[language], language))]


def _same(what: str, made_by: str, used: str, ref: GenerationRef) -> None:
    if made_by != used:
        raise WrongFingerprint(
            f"'{ref.collection}@{ref.number}' was made with the {what} '{made_by}', and '{used}' is in use. Name the "
            f"former, or let workers with the latter make the collection anew."
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
