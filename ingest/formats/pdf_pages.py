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
from ingest.formats.page_text import page_text, shows_picture
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.running_lines import without_running_lines
from pipeline.errors import Unparsable
from pipeline.passages import Upload

_NO_TITLE = re.compile(
    r"untitled|unbenannt|sans titre|anonymous|unspecified|(microsoft word|powerpoint) - .*", re.IGNORECASE
)
_LISTED = 20
_FILE_NAME = re.compile(r"\S+\.\w{2,5}")


def read_pdf(upload: Upload, options: ParsingOptions) -> Reading:
    """Every page with text is a block at least. Pages that are pictures are told in a warning.

    Raises Unparsable where no page has text, as in a scanned document.
    """
    try:
        reader = _opened(upload)
        outline = list(_outline(reader, reader.outline, 1))
        headings = Headings()
        texts = _texts(reader, upload, options)
        for number, text in enumerate(without_running_lines(texts), start=1):
            _add_page(headings, text, number, [entry[1:] for entry in outline if entry[0] == number])
        pictures = [n for n, text in enumerate(texts) if not text.strip() and shows_picture(reader.pages[n])]
        title = (reader.metadata.title if reader.metadata else None) or ""
        language = _language(reader)
    except DependencyError as error:
        raise _encrypted(upload.name) from error
    except PyPdfError as error:
        raise Unparsable(
            f"'{upload.name}' is damaged or cut short as a PDF: {str(error).rstrip('.')}. Export or send it again."
        ) from error
    if not headings.blocks() and texts:
        raise Unparsable(
            f"'{upload.name}' has no text on any of its {len(texts)} pages; it may be scanned: run OCR first."
            if len(texts) > 1
            else f"'{upload.name}' has no text on its only page; it may be scanned: run OCR first."
        )
    named = _NO_TITLE.fullmatch(title.strip()) or _FILE_NAME.fullmatch(title.strip())
    return Reading(
        headings.blocks(), "" if named else title, language=language, warnings=_warnings(pictures, len(texts))
    )


def _texts(reader: PdfReader, upload: Upload, options: ParsingOptions) -> list[str]:
    """The text of each page; a form that every page paints may stand for much more than the file holds."""
    texts: list[str] = []
    characters = 0
    for page in reader.pages:
        texts.append(even_lines(page_text(page)))
        characters += len(texts[-1])
        options.check_text(upload, characters)
    return texts


def _warnings(pictures: list[int], pages: int) -> tuple[str, ...]:
    """Which pages have no text although they show something."""
    if not pictures:
        return ()
    listed = ", ".join(str(number + 1) for number in pictures[:_LISTED]) + (", …" if len(pictures) > _LISTED else "")
    which = f"Page {listed}" if len(pictures) == 1 else f"{len(pictures)} pages ({listed})"
    have, them = ("has", "it") if len(pictures) == 1 else ("have", "them")
    return (f"{which} of {pages} {have} no text and may be scanned: run OCR first to have {them} found.",)


def _language(reader: PdfReader) -> str | None:
    return str(reader.root_object["/Lang"]).lower() if "/Lang" in reader.root_object else None


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
