"""Which rows of a segment are a document's: found by binary search, so that a tombstone costs no scan.

    documents.npy       document ids, sorted, in bytes of one width
    document_rows.npy   [ids, 2] int64: a document's first row, and the row behind its last

A document's passages follow one another. Where they do not, as nothing but a hand-made segment has them, its id is
there once for each run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retrieve.giving_way import give_way

IDS, ROWS = "documents.npy", "document_rows.npy"


class DocumentRowsBuilder:
    """Collects the documents of passages that go by in row order."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._begins: list[int] = []
        self._rows = 0

    def add(self, document_id: str) -> None:
        """The next row's document."""
        if not self._ids or self._ids[-1] != document_id:
            self._ids.append(document_id)
            self._begins.append(self._rows)
        self._rows += 1

    @property
    def documents(self) -> int:
        """How many there are."""
        return len(set(self._ids))

    def build(self) -> DocumentRows:
        """Sorted by id, runs of one document by row."""
        ids = np.array([_encoded(document_id) for document_id in self._ids], np.bytes_)
        begins = np.array([*self._begins, self._rows], np.int64)
        order = np.argsort(ids, kind="stable")
        return DocumentRows(ids[order], np.stack([begins[:-1], begins[1:]], axis=1)[order])


@dataclass(frozen=True, slots=True, eq=False)
class DocumentRows:
    """`ids` is `[runs]` of bytes, sorted, `runs` `[runs, 2] int64`. Safe to use from any thread."""

    ids: NDArray[np.bytes_]
    runs: NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path) -> DocumentRows:
        """Maps the files."""
        ids = np.asarray(np.load(folder / IDS, mmap_mode="r", allow_pickle=False))
        give_way()
        return cls(ids, np.asarray(np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)))

    def files(self) -> Mapping[str, NDArray[np.generic]]:
        """What to write, by file name."""
        return {IDS: self.ids, ROWS: self.runs}

    def runs_of(self, document_id: str) -> NDArray[np.int64]:
        """`[runs, 2]`: first row and the row behind the last, most often one run; none for an unknown document."""
        return self._found([document_id]).runs

    def rows_of(self, document_ids: Collection[str], dead: NDArray[np.int64]) -> Doomed:
        """The rows of these documents that are not among `dead`, ascending both; unknown documents have none."""
        found = self._found(document_ids)
        rows = spread(found.runs[:, 0], found.runs[:, 1])
        return Doomed(np.sort(_without(rows, dead)), len(_without(found.firsts, dead)))

    def _found(self, document_ids: Collection[str]) -> Found:
        width = self.ids.dtype.itemsize
        # Of this array's own width: of any other, numpy would copy all ids to compare them.
        known = [encoded for each in set(document_ids) if len(encoded := _encoded(each)) <= width]
        wanted = np.array(known, self.ids.dtype)
        begins = np.searchsorted(self.ids, wanted, "left")
        ends = np.searchsorted(self.ids, wanted, "right")
        found = ends > begins
        begins, ends = begins[found], ends[found]
        return Found(self.runs[spread(begins, ends)], self.runs[begins, 0])


@dataclass(frozen=True, slots=True)
class Found:
    """Runs of some documents, `[runs, 2]`, and the first row of each document, `[documents]`."""

    runs: NDArray[np.int64]
    firsts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Doomed:
    """Rows that die, ascending, and of how many documents they are."""

    rows: NDArray[np.int64]
    documents: int


def spread(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every number from each beginning to before its end, one range after the other."""
    lengths = ends - begins
    before = np.cumsum(lengths) - lengths
    numbers: NDArray[np.int64] = np.repeat(begins - before, lengths) + np.arange(int(lengths.sum()))
    return numbers


def _without(rows: NDArray[np.int64], dead: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those that are not among the dead, which are sorted and may be many more."""
    if len(dead) == 0:
        return rows
    places = np.minimum(np.searchsorted(dead, rows), len(dead) - 1)
    kept: NDArray[np.int64] = rows[dead[places] != rows]
    return kept


def _encoded(document_id: str) -> bytes:
    return document_id.encode(errors="replace")
