"""Passages in an Arrow file: mapped, so that opening costs nothing and a row is decoded when it is asked for.

Columns are named as Passage's fields. A file that an earlier version wrote lacks the later ones, which then are empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow  # type: ignore[import-untyped]  # carries no types

from pipeline.passages import Metadata, Passage, Scalar

arrow: Any = pyarrow
ROWS_A_BATCH = 4096  # fixed, so that a row's batch is a division


class PassageTableWriter:
    """Writes passages in row order. Opened with `with`; a batch leaves memory when it is full."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._schema = schema()
        self._waiting: list[Passage] = []
        self._writer: Any = None

    def __enter__(self) -> PassageTableWriter:
        self._writer = arrow.ipc.new_file(str(self._file), self._schema)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def add(self, passage: Passage) -> None:
        """The next row."""
        self._waiting.append(passage)
        if len(self._waiting) == ROWS_A_BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_batch(arrow.record_batch(_columns(self._waiting), schema=self._schema))
            self._waiting = []


class PassageTable:
    """Reads rows; safe to use from several threads."""

    def __init__(self, names: Sequence[str], batches: Sequence[Sequence[Any]], rows: int) -> None:
        self._names = tuple(names)
        self._batches = batches
        self._rows = rows
        self._cells: dict[int, tuple[Cell, ...]] = {}
        self._content_hash = self._names.index("content_hash")
        self._document = self._names.index("document_id")

    @classmethod
    def open(cls, file: Path) -> PassageTable:
        """Maps the file; no row is read."""
        reader = arrow.ipc.open_file(arrow.memory_map(str(file)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        return cls(reader.schema.names, [batch.columns for batch in batches], sum(batch.num_rows for batch in batches))

    def __len__(self) -> int:
        return self._rows

    def content_hash(self, row: int) -> str:
        """The content hash alone: a tenth of the time that the whole passage takes."""
        return self._value(row, self._content_hash)

    def document_id(self, row: int) -> str:
        """The document's id alone."""
        return self._value(row, self._document)

    def document_ids(self) -> Iterator[str]:
        """Every row's, in order; reads the whole column."""
        for batch in self._batches:
            yield from map(str, batch[self._document].to_pylist())

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        place = row % ROWS_A_BATCH
        values = {name: cell(place) for name, cell in zip(self._names, self._of(row), strict=True)}
        values["metadata"] = _metadata(values["metadata"])
        return Passage(**values)

    def _value(self, row: int, column: int) -> str:
        return str(self._of(row)[column](row % ROWS_A_BATCH))

    def _of(self, row: int) -> tuple[Cell, ...]:
        """What reads the columns of the row's batch; two threads that come at once make equal ones."""
        number = row // ROWS_A_BATCH
        cells = self._cells.get(number)
        if cells is None:
            cells = self._cells[number] = tuple(map(cell_of, self._batches[number]))
        return cells


Cell = Callable[[int], Any]


def cell_of(column: Any) -> Cell:
    """What reads one cell, by its row, of a column of text, of 32-bit numbers or of lists of text.

    From the column's own buffers: Arrow's scalars take a third longer, and a request reads a hundred of them.
    https://arrow.apache.org/docs/format/Columnar.html
    """
    known, *buffers = column.buffers()
    first: int = column.offset
    read: Cell
    if arrow.types.is_list(column.type):
        begins, member = _numbers(buffers[0]), cell_of(column.values)
        read = lambda row: tuple(map(member, range(begins[row + first], begins[row + first + 1])))  # noqa: E731
    elif arrow.types.is_string(column.type):
        offsets, data = _numbers(buffers[0]), memoryview(buffers[1] or b"")
        read = lambda row: str(data[offsets[row + first] : offsets[row + first + 1]], "utf-8")  # noqa: E731
    else:
        values = _numbers(buffers[0])
        read = lambda row: values[row + first]  # noqa: E731
    if column.null_count == 0:
        return read
    bits = memoryview(known).cast("B")
    return lambda row: read(row) if bits[(row + first) >> 3] >> ((row + first) & 7) & 1 else None


def _numbers(buffer: Any) -> memoryview:
    return memoryview(buffer or b"").cast("B").cast("i")


def schema() -> Any:
    """The columns, those that are not plain values behind the others, and what later versions added behind all."""
    text, number = arrow.string(), arrow.int32()
    required = [("id", text), ("document_id", text), ("ordinal", number), ("text", text), ("tokens", number)]
    required += [("content_hash", text), ("source", text), ("title", text)]
    optional = [("page", number), ("language", text)]
    return arrow.schema(
        [
            *(arrow.field(name, kind, nullable=False) for name, kind in required),
            *(arrow.field(name, kind) for name, kind in optional),
            arrow.field("heading", arrow.list_(text), nullable=False),
            arrow.field("metadata", text, nullable=False),
            arrow.field("access", arrow.list_(text), nullable=False),
            arrow.field("parent", text, nullable=False),
            arrow.field("start", number, nullable=False),
        ]
    )


def _columns(passages: Sequence[Passage]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        name: [getattr(passage, name) for passage in passages] for name in schema().names if name != "metadata"
    }
    columns["metadata"] = [json.dumps(dict(passage.metadata), ensure_ascii=False) for passage in passages]
    return columns


def _metadata(stored: str) -> Metadata:
    if stored == "{}":
        return {}
    loaded: dict[str, Any] = json.loads(stored)
    return {
        key: tuple(cast("list[Scalar]", value)) if isinstance(value, list) else value for key, value in loaded.items()
    }
