"""JSON lines: every line a record with `text`, perhaps `title` and `metadata`; a JSON array of such records, too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ingest.cleaning import even_lines
from ingest.formats.charset import decode_upload
from ingest.formats.headings import Headings
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.tables import pairs_text
from pipeline.errors import Unparsable
from pipeline.passages import Upload

_TEXT = ("text", "content", "body")
_NOT_TEXT = frozenset({*_TEXT, "title", "metadata", "_id"})


def read_json_lines(upload: Upload, _: ParsingOptions) -> Reading:
    """A record's title is the heading above its text; its other fields follow as `name: value` and are searchable."""
    headings = Headings()
    for record in _records(even_lines(decode_upload(upload)), upload.name):
        headings.enter(1, _word(record.get("title")))
        text = next((_word(record[key]) for key in _TEXT if record.get(key)), "")
        headings.add("\n\n".join(part for part in (text, pairs_text(_pairs(record))) if part.strip()))
    return Reading(headings.blocks(), headed=False)


def looks_like_json_lines(head: str) -> bool:
    """Whether the first line is a record with a text; for files whose name tells nothing."""
    first = head.lstrip().split("\n", 1)[0]
    if not first.startswith("{"):
        return False
    try:
        record: object = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and any(key in record for key in _TEXT)


def _records(text: str, name: str) -> Iterator[Mapping[str, object]]:
    if text.lstrip().startswith("["):
        yield from _array(text, name)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _record(_loaded(line, f"line {number} of '{name}'"), f"line {number} of '{name}'")


def _array(text: str, name: str) -> Iterator[Mapping[str, object]]:
    loaded = _loaded(text, f"'{name}'")
    for number, record in enumerate(cast("list[object]", loaded), start=1):
        yield _record(record, f"record {number} of '{name}'")


def _loaded(text: str, where: str) -> object:
    try:
        return cast("object", json.loads(text))
    except RecursionError:
        raise Unparsable(f"The JSON in {where} is nested too deeply. Send flat records with a 'text'.") from None
    except ValueError as error:
        raise Unparsable(f"There is no JSON in {where}: {error}. Every line must be one JSON object.") from error


def _record(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Unparsable(f'In {where} there is no JSON object but {_word(value)[:40]!r}. Send {{"text": …}} records.')
    return cast("Mapping[str, object]", value)


def _pairs(record: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    metadata: Any = record.get("metadata")
    own = [(key, value) for key, value in record.items() if key not in _NOT_TEXT]
    nested = list(cast("Mapping[str, object]", metadata).items()) if isinstance(metadata, dict) else []
    return [(key, _word(value)) for key, value in (*own, *nested)]


def _word(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(_word(item) for item in cast("list[object]", value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
