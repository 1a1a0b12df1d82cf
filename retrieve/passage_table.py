"""Passages in an Arrow file: mapped, so that opening costs nothing and a row is decoded when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow  # type: ignore[import-untyped]  # carries no types

from pipeline.passages import Metadata, Passage, Scalar

arrow: Any = pyarrow
ROWS_A_BATCH = 4096  # fixed, so that a row's batch is a division
CONTENT_HASH = 5  # its column


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

    def __init__(self, batches: Sequence[Sequence[Any]], rows: int) -> None:
        self._batches = batches
        self._rows = rows

    @classmethod
    def open(cls, file: Path) -> PassageTable:
        """Maps the file; no row is read."""
        reader = arrow.ipc.open_file(arrow.memory_map(str(file)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        return cls([batch.columns for batch in batches], sum(batch.num_rows for batch in batches))

    def __len__(self) -> int:
        return self._rows

    def content_hash(self, row: int) -> str:
        """The content hash alone: a tenth of the time that the whole passage takes."""
        column = self._batches[row // ROWS_A_BATCH][CONTENT_HASH]
        return str(column[row % ROWS_A_BATCH].as_py())

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        columns = self._batches[row // ROWS_A_BATCH]
        identity, document, ordinal, text, tokens, content, source, title, page, language, heading, metadata = (
            column[row % ROWS_A_BATCH].as_py() for column in columns
        )
        return Passage(
            id=identity,
            document_id=document,
            ordinal=ordinal,
            text=text,
            tokens=tokens,
            content_hash=content,
            source=source,
            title=title,
            heading=tuple(heading),
            page=page,
            language=language,
            metadata=_metadata(metadata),
        )


def schema() -> Any:
    """The columns, in the order of Passage's fields, the two that are not plain values last."""
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
