"""Segments are written here: a base, or a delta beside one, by the same code."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.errors import InvalidInput
from pipeline.passages import Passage
from pipeline.ports import SegmentRef
from retrieve.attribute_building import AttributesBuilder
from retrieve.dense import DenseOptions
from retrieve.dense_building import write_dense
from retrieve.document_rows import DocumentRowsBuilder
from retrieve.duplicates import signatures
from retrieve.manifest import BASE, DELTA, SEGMENT_NAME, FileSum, SegmentInfo
from retrieve.passage_table import PassageTableWriter
from retrieve.postings import Bm25Options, PostingsBuilder
from retrieve.segment import HASHES, INDEX, PASSAGES, SIGNATURES, TOKEN_COUNTS, TOKEN_OFFSETS, TOKENS, VECTORS
from retrieve.storage import Content, Storage

AT_ONCE = 1024  # passages tokenised together


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """How segments are built; opening reads what `dense` says of searching."""

    bm25: Bm25Options = field(default_factory=Bm25Options)
    dense: DenseOptions = field(default_factory=DenseOptions)


class SegmentWriter:
    """Writes segments into the folder of a collection's segments, complete or not at all."""

    def __init__(self, tokenizer: Tokenizer, options: GenerationOptions, storage: Storage) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._storage = storage

    def write(
        self, segments: Path, passages: Iterable[Passage], vectors: NDArray[np.float32], base: SegmentRef | None
    ) -> SegmentInfo:
        """The folder is named by its content. What is there already in the same words is taken, once it has been read
        and found whole; next to one that is damaged the same is written again under another name.

        Raises InvalidInput when passages and vectors are not equally many.
        """
        storage = self._storage
        storage.make_folder(segments)
        unfinished = storage.make_unfinished(segments)
        try:
            made = self._files(unfinished, passages, vectors, base)
            info = next(info for info in _attempts(made) if _usable(segments, info))
            folder = segments / info.name
            if folder.exists():
                storage.discard(unfinished)
                storage.sync_folder(segments)  # whoever gave it its name may have been killed before he could
                return info
            storage.write(unfinished / SEGMENT_NAME, info.content())
            storage.settle(unfinished)
            storage.finish(unfinished, folder)
        except BaseException:
            storage.discard(unfinished)
            raise
        return info

    def _files(
        self, folder: Path, passages: Iterable[Passage], vectors: NDArray[np.float32], base: SegmentRef | None
    ) -> SegmentInfo:
        bm25, average_length = self._options.bm25, base.average_length if base else 0.0
        columns = self._columns(folder / PASSAGES, passages)
        self._storage.wrote(folder / PASSAGES)
        if len(columns.counts) != len(vectors):
            raise InvalidInput(
                f"There are {len(columns.counts)} passages and {len(vectors)} vectors; each passage needs its own."
            )
        dense = write_dense(folder / INDEX, vectors, self._options.dense)
        self._storage.wrote(folder / INDEX)
        offsets = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum([len(each) for each in columns.tokens], dtype=np.int64)]
        )
        tokens = np.concatenate([np.empty(0, np.int32), *columns.tokens])
        average_length = average_length or columns.postings.average_length
        files: dict[str, Content] = {
            VECTORS: vectors,
            TOKENS: tokens,
            TOKEN_OFFSETS: offsets,
            TOKEN_COUNTS: np.array(columns.counts, np.int32),
            SIGNATURES: signatures(tokens, offsets),
            HASHES: np.frombuffer(b"".join(columns.hashes), np.uint64).reshape(-1, 2),
            **columns.postings.build(average_length).files(),
            **columns.documents.build().files(),
            **columns.attributes.files(),
        }
        for name, content in files.items():
            self._storage.write(folder / name, content)
        return SegmentInfo(
            DELTA if base else BASE,
            columns.documents.documents,
            len(vectors),
            vectors.shape[1],
            average_length,
            dense,
            bm25.k1,
            bm25.b,
            dict(sorted(columns.languages.items())),
            {file.name: FileSum.of(file) for file in sorted(folder.iterdir())},
        )

    def _columns(self, file: Path, passages: Iterable[Passage]) -> Columns:
        """One pass over the passages, which need not fit into memory.

        The tokenizer lets go of the interpreter's lock, so it reads the texts while everything else is done with them.
        """
        columns = Columns(PostingsBuilder(self._options.bm25))
        with PassageTableWriter(file) as table, ThreadPoolExecutor(1, "tokenise") as tokenising:
            for some in _runs(passages, AT_ONCE):
                texts = [passage.embedded_text() for passage in some]
                tokens = tokenising.submit(self._token_ids, texts)
                for passage, text in zip(some, texts, strict=True):
                    table.add(passage)
                    columns.add(passage, text)
                columns.tokens.extend(tokens.result())
        return columns

    def _token_ids(self, texts: list[str]) -> list[NDArray[np.int32]]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]


@dataclass(frozen=True, slots=True)
class Columns:
    """What is collected while passages go by."""

    postings: PostingsBuilder
    documents: DocumentRowsBuilder = field(default_factory=DocumentRowsBuilder)
    attributes: AttributesBuilder = field(default_factory=AttributesBuilder)
    tokens: list[NDArray[np.int32]] = field(default_factory=list["NDArray[np.int32]"])
    counts: list[int] = field(default_factory=list[int])
    hashes: list[bytes] = field(default_factory=list[bytes])
    languages: Counter[str] = field(default_factory=Counter[str])

    def add(self, passage: Passage, embedded: str) -> None:
        """Everything but the token ids."""
        self.postings.add(embedded, passage.language)
        self.documents.add(passage.document_id)
        self.attributes.add(passage)
        self.counts.append(passage.tokens)
        self.hashes.append(hashlib.blake2b(passage.content_hash.encode(), digest_size=16).digest())
        self.languages[passage.language or ""] += 1


def _attempts(made: SegmentInfo) -> Iterator[SegmentInfo]:
    return (replace(made, attempt=attempt).named() for attempt in count())


def _usable(segments: Path, info: SegmentInfo) -> bool:
    """Whether the name is free, or what bears it is just what would be written."""
    folder = segments / info.name
    if not folder.exists():
        return True
    try:
        return SegmentInfo.read(folder) == info and all(
            FileSum.of(folder / name) == expected for name, expected in info.files.items()
        )
    except (OSError, ValueError):
        return False


def _runs(passages: Iterable[Passage], length: int) -> Iterator[list[Passage]]:
    remaining = iter(passages)
    while some := list(islice(remaining, length)):
        yield some
