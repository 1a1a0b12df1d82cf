"""Which format a file is in: by what it holds, then by its name, then by what was declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from zipfile import BadZipFile, ZipFile

from ingest.formats.html_page import read_html
from ingest.formats.json_lines import looks_like_json_lines, read_json_lines
from ingest.formats.markdown_text import read_markdown
from ingest.formats.pdf_pages import read_pdf
from ingest.formats.plain_text import read_plain_text
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.rows import read_rows
from ingest.formats.word_document import read_word
from pipeline.errors import Unparsable
from pipeline.passages import Upload


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is read: what it is called, where it is met, and by whom it is read."""

    media_type: str
    extensions: frozenset[str]
    declared: frozenset[str]
    read: Callable[[Upload, ParsingOptions], Reading]


_WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

PDF = Format("application/pdf", frozenset({".pdf"}), frozenset({"application/pdf"}), read_pdf)
WORD = Format(_WORD_TYPE, frozenset({".docx"}), frozenset({_WORD_TYPE}), read_word)
HTML = Format(
    "text/html", frozenset({".html", ".htm", ".xhtml"}), frozenset({"text/html", "application/xhtml+xml"}), read_html
)
MARKDOWN = Format(
    "text/markdown",
    frozenset({".md", ".markdown", ".mdown"}),
    frozenset({"text/markdown", "text/x-markdown"}),
    read_markdown,
)
ROWS = Format("text/csv", frozenset({".csv", ".tsv"}), frozenset({"text/csv", "text/tab-separated-values"}), read_rows)
JSON_LINES = Format(
    "application/jsonl",
    frozenset({".jsonl", ".ndjson", ".json"}),
    frozenset({"application/jsonl", "application/x-ndjson", "application/x-jsonlines", "application/json"}),
    read_json_lines,
)
TEXT = Format("text/plain", frozenset({".txt", ".text", ".log"}), frozenset({"text/plain"}), read_plain_text)

_TEXT_FORMATS = (HTML, MARKDOWN, ROWS, JSON_LINES, TEXT)
_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_KNOWN_BY_START = (
    (b"\xd0\xcf\x11\xe0", "an old Office file (.doc, .xls, .ppt), or an encrypted one"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"GIF8", "a picture (GIF)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"{\\rtf", "an RTF document"),
    (b"\x7fELF", "a program"),
)
_READ = "Send Markdown, text, HTML, PDF, DOCX, CSV or JSONL."


def format_of(upload: Upload) -> Format:
    """The format by which the upload is read; a wrong extension or declaration does not matter where content tells.

    Raises Unparsable for a file of a known kind that is not read.
    """
    content = upload.content
    if b"%PDF-" in content[:1024]:
        return PDF
    if content.startswith(b"PK\x03\x04"):
        return _zipped(upload)
    for start, kind in _KNOWN_BY_START:
        if content.startswith(start):
            raise Unparsable(f"'{upload.name}' is {kind}, which is not read. {_READ}")
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
    try:
        with ZipFile(BytesIO(upload.content)) as archive:
            names = set(archive.namelist())
    except (BadZipFile, ValueError, EOFError) as error:
        raise Unparsable(
            f"'{upload.name}' is damaged or cut short: it begins as a DOCX or ZIP file, but its directory is missing. "
            "Send it again."
        ) from error
    if "word/document.xml" in names:
        return WORD
    kind = (
        "a spreadsheet"
        if "xl/workbook.xml" in names
        else "a presentation"
        if "ppt/presentation.xml" in names
        else "a ZIP archive"
    )
    raise Unparsable(f"'{upload.name}' is {kind}, which is not read. {_READ}")


def _head(content: bytes) -> str:
    head = content[: 64 * 1024]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "replace")
    return head.decode("utf-8-sig", "replace")
