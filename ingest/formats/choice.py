"""Which format a file is in: by what it holds, then by its name, then by what was declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from ingest.formats.html_page import read_html
from ingest.formats.json_lines import looks_like_json_lines, read_json_lines
from ingest.formats.markdown_text import read_markdown
from ingest.formats.office_package import OfficePackage
from ingest.formats.pdf_pages import read_pdf
from ingest.formats.plain_text import read_plain_text
from ingest.formats.presentation import read_presentation
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.refused import refusal, refuse_known_kinds, zipped_kind
from ingest.formats.rows import read_rows
from ingest.formats.spreadsheet import read_spreadsheet
from ingest.formats.word_document import read_word
from pipeline.errors import Unparsable
from pipeline.passages import Upload


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is read: what it is called, by whom it is read, and how it is told where content does not tell."""

    media_type: str
    read: Callable[[Upload, ParsingOptions], Reading]
    extensions: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()


_OFFICE_TYPE = "application/vnd.openxmlformats-officedocument."

PDF = Format("application/pdf", read_pdf)
WORD = Format(f"{_OFFICE_TYPE}wordprocessingml.document", read_word)
PRESENTATION = Format(f"{_OFFICE_TYPE}presentationml.presentation", read_presentation)
SPREADSHEET = Format(f"{_OFFICE_TYPE}spreadsheetml.sheet", read_spreadsheet)
HTML = Format(
    "text/html", read_html, frozenset({".html", ".htm", ".xhtml"}), frozenset({"text/html", "application/xhtml+xml"})
)
MARKDOWN = Format(
    "text/markdown",
    read_markdown,
    frozenset({".md", ".markdown", ".mdown"}),
    frozenset({"text/markdown", "text/x-markdown"}),
)
ROWS = Format("text/csv", read_rows, frozenset({".csv", ".tsv"}), frozenset({"text/csv", "text/tab-separated-values"}))
JSON_LINES = Format(
    "application/jsonl",
    read_json_lines,
    frozenset({".jsonl", ".ndjson", ".json"}),
    frozenset({"application/jsonl", "application/x-ndjson", "application/x-jsonlines", "application/json"}),
)
TEXT = Format("text/plain", read_plain_text, frozenset({".txt", ".text", ".log"}), frozenset({"text/plain"}))

_OFFICE = {"word/": WORD, "ppt/": PRESENTATION, "xl/": SPREADSHEET}
_TEXT_FORMATS = (HTML, MARKDOWN, ROWS, JSON_LINES, TEXT)
_HTML_START = re.compile(
    r"\s*+(?:<\?xml[^>]{0,200}+>\s*+)?(?><!--.{0,2000}?-->\s*+)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)


def format_of(upload: Upload) -> Format:
    """The format by which the upload is read; a wrong extension or declaration does not matter where content tells.

    Raises Unparsable for a file of a known kind that is not read.
    """
    content = upload.content
    if content.startswith(b"PK\x03\x04"):
        return _zipped(upload)
    if content.startswith(b"%PDF-") or (b"%PDF-" in content[:1024] and b" obj" in content):
        return PDF
    refuse_known_kinds(upload)
    head = _head(content)
    if _HTML_START.match(head):
        return HTML
    named = _by_name(upload.name) or _by_declaration(upload.media_type) or TEXT
    return JSON_LINES if named is TEXT and looks_like_json_lines(head) else named


def _by_name(name: str) -> Format | None:
    extension = PurePosixPath(name.split("?", 1)[0].split("#", 1)[0].lower()).suffix
    return next((known for known in _TEXT_FORMATS if extension in known.extensions), None)


def _by_declaration(media_type: str | None) -> Format | None:
    declared = (media_type or "").split(";", 1)[0].strip().lower()
    return next((known for known in _TEXT_FORMATS if declared in known.declared), None)


def _zipped(upload: Upload) -> Format:
    """By the part that everything else hangs on, whatever the file is called."""
    if b"PK\x05\x06" not in upload.content:
        raise Unparsable(
            f"'{upload.name}' is damaged or cut short: it begins as an Office or ZIP file, but its directory is "
            "missing. Send it again."
        )
    with OfficePackage.open(upload) as package:
        main = package.main
        mimetype = package.head("mimetype", 200).decode("ascii", "replace")
    if main.endswith(".bin"):
        raise refusal(upload, "a binary spreadsheet (.xlsb)", "Save it as XLSX.")
    known = next((known for folder, known in _OFFICE.items() if main.startswith(folder)), None)
    if known is None:
        raise refusal(upload, zipped_kind(mimetype))
    return known


def _head(content: bytes) -> str:
    head = content[: 64 * 1024]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "replace")
    return head.decode("utf-8-sig", "replace")
