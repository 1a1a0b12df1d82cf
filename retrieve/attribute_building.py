"""Collects what filters need of passages, and writes it as one file of a segment.

Rows that follow each other and say the same are one *run*, mostly a document or a page of it. For each field and kind
the distinct values stand in order, each with the runs that hold it; so a comparison, also one of a range, is a look-up
of two places and the runs between them, and costs what it finds.

    attributes.arrow    one Arrow batch; row 0 has the first row of each run as its owners
        value           the distinct values of every field and kind, end to end, each as `retrieve.kinds.coded`
        owners          runs that hold it, ascending
        metadata        JSON: which rows of the batch belong to which field and kind, and which to access labels
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import pyarrow  # type: ignore[import-untyped]  # carries no types
from numpy.typing import NDArray

from pipeline.passages import Metadata, Passage, Scalar
from retrieve.kinds import Kind, coded, decoded

arrow: Any = pyarrow
ATTRIBUTES = "attributes.arrow"
DIRECTORY = b"fleetfoot.attributes"
BUILT_IN: Mapping[str, Kind] = {
    "document_id": Kind.TEXT,
    "source": Kind.TEXT,
    "title": Kind.TEXT,
    "language": Kind.TEXT,
    "page": Kind.NUMBER,
}
"""What every passage has without metadata. A document's own metadata of the same name comes first."""

_FLUSHED = 4096  # values that wait as Python objects


class AttributesBuilder:
    """Takes passages in the order of their rows."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, Kind], _Growing] = {}
        self._access = _Growing()
        self._starts = array("i")
        self._rows = 0
        self._last: Passage | None = None

    def add(self, passage: Passage) -> None:
        """The next row."""
        last = self._last
        if last is None or passage.document_id != last.document_id or not _say_the_same(passage, last):
            self._begin(passage)
        self._last = passage
        self._rows += 1

    def files(self) -> Mapping[str, bytes]:
        """The content of each file by its name; equal passages make equal bytes."""
        values, owners, counts = [arrow.array([""], arrow.large_string())], [np.array(self._starts, np.int32)], [0]
        counts[0] = len(self._starts)
        place = 1
        said: dict[str, dict[str, list[int]]] = {}
        for (name, kind), column in sorted(self._columns.items(), key=lambda item: (item[0][0], item[0][1].value)):
            finished = column.finished(kind)
            said.setdefault(name, {})[str(kind.name)] = [place, place + len(finished.counts)]
            place += len(finished.counts)
            values.append(finished.values)
            owners.append(finished.owners)
            counts.extend(finished.counts.tolist())
        labels = self._access.finished(Kind.TEXT)
        directory = {"rows": self._rows, "fields": said, "access": [place, place + len(labels.counts)]}
        values.append(labels.values)
        owners.append(labels.owners)
        counts.extend(labels.counts.tolist())
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
        return {ATTRIBUTES: _written(arrow.concat_arrays(values), offsets, np.concatenate(owners), directory)}

    def _begin(self, passage: Passage) -> None:
        run = len(self._starts)
        self._starts.append(self._rows)
        columns = self._columns
        for name, value in fields_of(passage).items():
            codes = coded(value) if not isinstance(value, tuple) else dict.fromkeys(_codes(value))
            for kind, text in codes:
                column = columns.get((name, kind))
                if column is None:
                    column = columns[name, kind] = _Growing()
                column.add(text, run)
        for label in dict.fromkeys(passage.access):
            self._access.add(label, run)


def _say_the_same(one: Passage, other: Passage) -> bool:
    """Whether two passages of a document have equal fields, in the same types: 1 and True are equal, and two values."""
    return (
        one.page == other.page
        and one.title == other.title
        and one.source == other.source
        and one.language == other.language
        and one.access == other.access
        and (one.metadata is other.metadata or repr(one.metadata) == repr(other.metadata))
    )


def fields_of(passage: Passage) -> Metadata:
    """All fields of a passage that filters know: those that it has by itself, and its document's metadata."""
    own: dict[str, Scalar | tuple[Scalar, ...]] = {
        "document_id": passage.document_id,
        "source": passage.source,
        "title": passage.title,
    }
    if passage.language is not None:
        own["language"] = passage.language
    if passage.page is not None:
        own["page"] = passage.page
    return {**own, **passage.metadata}


def _codes(members: tuple[Scalar, ...]) -> Iterator[tuple[Kind, str]]:
    return (code for member in members for code in coded(member))


class _Column:
    """Distinct values in order, how many runs hold each, and those runs, end to end."""

    def __init__(self, values: Any, counts: NDArray[np.int64], owners: NDArray[np.int32]) -> None:
        self.values, self.counts, self.owners = values, counts, owners


class _Growing:
    """Values and who holds them, in the order in which they come. Most are kept as Arrow's bytes, not as objects."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self._waiting: list[str] = []
        self._owners = array("i")

    def add(self, text: str, run: int) -> None:
        self._waiting.append(text)
        self._owners.append(run)
        if len(self._waiting) == _FLUSHED:
            self._flush()

    def finished(self, kind: Kind) -> _Column:
        self._flush()
        encoded = arrow.chunked_array(self._chunks, arrow.large_string()).combine_chunks().dictionary_encode()
        order = _order(kind, encoded.dictionary)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        codes = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
        owners = np.array(self._owners, np.int32)[np.argsort(codes, kind="stable")]
        return _Column(encoded.dictionary.take(arrow.array(order)), np.bincount(codes, minlength=len(order)), owners)

    def _flush(self) -> None:
        if self._waiting:
            self._chunks.append(arrow.array(self._waiting, arrow.large_string()))
            self._waiting = []


def _order(kind: Kind, distinct: Any) -> NDArray[np.int64]:
    """The places of the values, smallest first. Arrow compares bytes of UTF-8, which is comparing code points."""
    if kind is Kind.TEXT:
        from pyarrow import compute  # noqa: PLC0415  a fifth of a second, for who writes

        sorted_places: NDArray[np.int64] = cast("Any", compute).array_sort_indices(distinct).to_numpy()
        return sorted_places.astype(np.int64)
    keys = [decoded(kind, text) for text in distinct.to_pylist()]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _written(
    values: Any, offsets: NDArray[np.int64], owners: NDArray[np.int32], directory: Mapping[str, object]
) -> bytes:
    lists = arrow.LargeListArray.from_arrays(arrow.array(offsets), arrow.array(owners))
    fields = [arrow.field("value", values.type), arrow.field("owners", lists.type)]
    schema = arrow.schema(fields, metadata={DIRECTORY: json.dumps(directory, sort_keys=True).encode()})
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_file(sink, schema) as writer:
        writer.write_batch(arrow.record_batch([values, lists], schema=schema))
    written: bytes = sink.getvalue().to_pybytes()
    return written
