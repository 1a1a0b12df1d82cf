"""A segment, opened: passages, both indexes and everything that was computed of each passage, mapped into memory.

    passages.arrow                  the passages
    vectors.faiss  vectors.npy      the dense index; the rows themselves
    terms.bin  *_offsets.npy  …     the postings (retrieve.postings)
    tokens.npy  token_offsets.npy   token ids of what was embedded (title, headings, text), end to end
    token_counts.npy                tokens of each text
    signatures.npy  hashes.npy      for near and for exact duplicates
    documents.npy  document_rows.npy  which rows are a document's (retrieve.document_rows)
    …                               values of fields, for filters (retrieve.attributes)
    segment.json                    what the segment is, and a checksum of every other file

Files are never rewritten, and generations share segments: each is opened once in a process. What is mapped stays
readable until the last request on it has finished, even when its folder is deleted meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from retrieve.attributes import Attributes
from retrieve.dense import DenseIndex, DenseOptions, DenseSearch
from retrieve.document_rows import IDS, DocumentRows, DocumentRowsBuilder
from retrieve.giving_way import give_way
from retrieve.lexical import LexicalIndex
from retrieve.manifest import BASE, SegmentInfo
from retrieve.passage_table import PassageTable
from retrieve.postings import Postings

PASSAGES, INDEX, VECTORS = "passages.arrow", "vectors.faiss", "vectors.npy"
TOKENS, TOKEN_OFFSETS, TOKEN_COUNTS = "tokens.npy", "token_offsets.npy", "token_counts.npy"
SIGNATURES, HASHES = "signatures.npy", "hashes.npy"
_Arrays = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64], NDArray[np.uint64]]
OnVectors = Callable[[NDArray[np.float32]], DenseSearch]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Segment:
    """A segment as one generation has it. Safe to use from any thread; `dense` from as many as it says.

    Shapes: `vectors` `[rows, dimensions] float32`, `tokens` `[all tokens] int32`, `token_offsets` `[rows + 1] int64`,
    `token_counts` `[rows] int32`, `signatures` `[rows] uint64`, `hashes` `[rows, 2] uint64`. `alive` is `[rows] uint8`,
    0 for rows that are not part of the generation; None where nothing is dead. `whole` is the segment without
    tombstones, which all generations share that have it.
    """

    folder: Path
    info: SegmentInfo
    table: PassageTable
    lexical: LexicalIndex
    dense: DenseSearch
    vectors: NDArray[np.float32]
    tokens: NDArray[np.int32]
    token_offsets: NDArray[np.int64]
    token_counts: NDArray[np.int32]
    signatures: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    documents: DocumentRows
    attributes: Attributes
    alive: NDArray[np.uint8] | None = None
    whole: Segment | None = None

    @classmethod
    def open(
        cls, folder: Path, info: SegmentInfo, options: DenseOptions | None = None, dense: OnVectors | None = None
    ) -> Segment:
        """Maps the files, which have been verified. `dense`, where given, searches a base's vectors instead of the
        FAISS file, as on a GPU; a delta is small, and compared on the CPU.

        Raises Damaged when the FAISS file is of other vectors.
        """

        def mapped(name: str) -> NDArray[np.generic]:
            give_way()
            return np.asarray(np.load(folder / name, mmap_mode="r", allow_pickle=False))

        give_way()
        table = PassageTable.open(folder / PASSAGES)
        vectors = cast("NDArray[np.float32]", mapped(VECTORS))
        lexical = LexicalIndex(Postings.open(folder, info.passages))
        give_way()
        on_gpu = dense if info.kind == BASE else None
        nearest = on_gpu(vectors) if on_gpu else DenseIndex.open(folder / INDEX, vectors, options or DenseOptions())
        names = (TOKENS, TOKEN_OFFSETS, TOKEN_COUNTS, SIGNATURES, HASHES)
        arrays = cast("_Arrays", tuple(mapped(name) for name in names))
        give_way()
        documents = _documents(folder, info, table)
        give_way()
        attributes = Attributes.open(folder, info.passages)
        return cls(folder, info, table, lexical, nearest, vectors, *arrays, documents, attributes)

    @property
    def rows(self) -> int:
        """How many passages there are, the dead included."""
        return self.info.passages

    def without(self, dead: NDArray[np.int64]) -> Segment:
        """The same, in which these rows are dead."""
        if len(dead) == 0:
            return self
        alive = np.ones(self.rows, np.uint8)
        alive[dead] = 0
        return replace(self, alive=alive, whole=self.whole or self)

    def living(self, document_id: str) -> NDArray[np.int64]:
        """The rows of a document that are part of the generation, ascending."""
        rows = self.documents.rows_of([document_id], np.empty(0, np.int64)).rows
        return rows if self.alive is None else rows[self.alive[rows] != 0]


class OpenSegments:
    """The segments that are open in this process, by folder; one goes when no generation has it any more."""

    def __init__(self) -> None:
        self._open: WeakValueDictionary[Path, Segment] = WeakValueDictionary()
        self._turn = threading.Lock()

    def get(self, folder: Path) -> Segment | None:
        """The segment, if some generation has it open."""
        with self._turn:
            return self._open.get(folder)

    def keep(self, segment: Segment) -> Segment:
        """The segment, or the one that another thread has opened meanwhile."""
        with self._turn:
            return self._open.setdefault(segment.folder, segment)

    def forget(self, folder: Path) -> None:
        """Whoever asks for it next opens and verifies it anew; who has it keeps it."""
        with self._turn:
            self._open.pop(folder, None)


def _documents(folder: Path, info: SegmentInfo, table: PassageTable) -> DocumentRows:
    """From its files; of a segment of the first format, which has none, from the passages."""
    if IDS in info.files:
        return DocumentRows.open(folder)
    builder = DocumentRowsBuilder()
    for document_id in table.document_ids():
        builder.add(document_id)
    return builder.build()
