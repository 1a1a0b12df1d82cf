"""Reads the example handbook and its questions, for the tests beside it."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docx
from pypdf import PdfReader

EXAMPLES = Path(__file__).parents[2] / "examples"
HANDBOOK = EXAMPLES / "handbook"


@dataclass(frozen=True, slots=True)
class Question:
    """One line of queries.jsonl."""

    id: str
    text: str
    answer: str | None
    answerable: bool
    language: str
    kind: str
    conversation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line of qrels/test.tsv."""

    query: str
    document: str
    grade: int


def documents() -> dict[str, Path]:
    """The handbook's files by their document id."""
    return {path.relative_to(HANDBOOK).as_posix(): path for path in sorted(HANDBOOK.rglob("*")) if path.is_file()}


def questions() -> list[Question]:
    """In the order of the file; a field that is missing or unknown is an error."""
    lines = (EXAMPLES / "questions" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [_question(json.loads(line)) for line in lines]


def judgements() -> list[Judgement]:
    """In the order of the file."""
    text = (EXAMPLES / "questions" / "qrels" / "test.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [Judgement(row["query-id"], row["corpus-id"], int(row["score"])) for row in rows]


def text_of(path: Path) -> str:
    """A document's text as an author would copy it out: read plainly, not by the service's own parsers."""
    match path.suffix:
        case ".pdf":
            return "\n".join(page.extract_text() for page in PdfReader(path).pages)
        case ".docx":
            document = docx.Document(str(path))
            cells = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
            return "\n".join([*(paragraph.text for paragraph in document.paragraphs), *cells])
        case _:
            return path.read_text(encoding="utf-8")


def plain(text: str) -> str:
    """Compatibility forms, letter case and line breaks do not count."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).casefold().strip()


def _question(line: dict[str, Any]) -> Question:
    metadata = line["metadata"]
    return Question(
        id=line["_id"],
        text=line["text"],
        answer=metadata["answer"],
        answerable=metadata["answerable"],
        language=metadata["language"],
        kind=metadata["kind"],
        conversation=tuple(metadata["conversation"]),
    )
