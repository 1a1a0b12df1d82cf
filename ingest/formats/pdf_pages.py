"""PDF: text page by page, under the headings of the document's own outline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError, PyPdfError

from ingest.cleaning import even_lines, joined_hyphens, unwrapped
from ingest.formats.headings import Headings
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.running_lines import without_running_lines
from pipeline.errors import Unparsable
from pipeline.passages import Upload

_NO_TITLE = re.compile(
    r"untitled|unbenannt|sans titre|anonymous|unspecified|(microsoft word|powerpoint) - .*", re.IGNORECASE
)
_FILE_NAME = re.compile(r"\S+\.\w{2,5}")


def read_pdf(upload: Upload, _: ParsingOptions) -> Reading:
    """Every page is a block at least. A scanned document raises Unparsable: its pages are pictures."""
    try:
        reader = _opened(upload)
        outline = list(_outline(reader, reader.outline, 1))
        headings = Headings()
        pages = without_running_lines([even_lines(page.extract_text()) for page in reader.pages])
        for number, page in enumerate(pages, start=1):
            _add_page(headings, page, number, [entry[1:] for entry in outline if entry[0] == number])
        title = (reader.metadata.title if reader.metadata else None) or ""
    except DependencyError as error:
        raise _encrypted(upload.name) from error
    except PyPdfError as error:
        raise Unparsable(
            f"'{upload.name}' is damaged or cut short as a PDF: {error}. Export or send it again."
        ) from error
    if not headings.blocks() and len(reader.pages):
        raise Unparsable(
            f"'{upload.name}' has no text on its {len(reader.pages)} pages, perhaps because they were scanned. "
            "Run a text recognition (OCR) over it first."
        )
    named = _NO_TITLE.fullmatch(title.strip()) or _FILE_NAME.fullmatch(title.strip())
    return Reading(headings.blocks(), "" if named else title)


def _opened(upload: Upload) -> PdfReader:
    reader = PdfReader(BytesIO(upload.content))
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise _encrypted(upload.name)
    return reader


def _encrypted(name: str) -> Unparsable:
    return Unparsable(f"'{name}' is an encrypted PDF. Save it without a password and send it again.")


def _outline(reader: PdfReader, entries: list[Any], level: int) -> Iterator[tuple[int, int, str]]:
    """Page (from 1), level and title of every bookmark, in the outline's order; those that lead nowhere left out."""
    for entry in entries:
        if isinstance(entry, list):
            inner: list[Any] = entry  # pyright: ignore[reportUnknownVariableType]  # nested plain lists
            yield from _outline(reader, inner, level + 1)
        else:
            page = reader.get_destination_page_number(entry)
            title = str(entry.title or "")
            if page is not None and page >= 0 and title.strip():
                yield page + 1, level, title


def _add_page(headings: Headings, text: str, number: int, begun: list[tuple[int, str]]) -> None:
    """Cuts the page where the text shows a heading that begins on it; one that it does not show begins the page."""
    rest = text
    for level, title in begun:
        words = [re.escape(word) for word in title.split()]
        shown = re.search(r"^[ \t]*(?:[\d.]+\s+)?" + r"\s+".join(words) + r"[ \t]*$", rest, re.MULTILINE)
        if shown:
            headings.add(_paragraphs(rest[: shown.start()]), number)
            rest = rest[shown.end() :]
        headings.enter(level, title)
    headings.add(_paragraphs(rest), number)


def _paragraphs(text: str) -> str:
    return "\n\n".join(unwrapped(joined_hyphens(part)) for part in re.split(r"\n(?:[ \t]*\n)+", text))
