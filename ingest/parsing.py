"""From an upload to a document: format told, text read, cleaned, and its title and language found."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ingest.cleaning import clean, clean_line
from ingest.formats.choice import Format, format_of
from ingest.formats.reading import ParsingOptions, Reading
from ingest.language import detect_language
from pipeline.errors import FleetfootError, TooLarge, Unparsable
from pipeline.passages import Block, Document, Upload

_LANGUAGE = re.compile(r"([a-z]{2})(?:[-_][a-z0-9-]+)?", re.IGNORECASE)
_LONGEST_TITLE = 300  # characters; a longer one is a paragraph that somebody marked as a heading


class Parsing:
    """The Parser that reads in this process. Behind hostile uploads stands `IsolatedParser`."""

    def __init__(self, options: ParsingOptions | None = None) -> None:
        self.options = options or ParsingOptions()

    def parse(self, upload: Upload, document_id: str) -> Document:
        """Raises TooLarge over a limit, Unparsable for what cannot be read or has no text; both name the upload."""
        self.options.check_size(upload)
        if not upload.content.strip():
            raise Unparsable(f"'{upload.name}' has no text: the file is empty.")
        chosen = format_of(upload)
        reading = self._read(upload, chosen)
        blocks = self._cleaned(upload, reading)
        return Document(
            id=document_id,
            name=upload.name,
            title=_title(upload, reading, blocks),
            blocks=blocks,
            media_type=chosen.media_type,
            language=_language(upload, reading, blocks),
            metadata={**reading.metadata, **upload.metadata},
            access=upload.access,
            warnings=reading.warnings,
        )

    def _read(self, upload: Upload, chosen: Format) -> Reading:
        """Parsers of hostile files raise whatever they stumble over; here that becomes the document's own failure."""
        try:
            return chosen.read(upload, self.options)
        except (FleetfootError, MemoryError):
            raise
        except RecursionError as error:
            raise Unparsable(f"'{upload.name}' is nested too deeply to be read. Simplify it.") from error
        except Exception as error:  # the border to other people's parsers
            raise Unparsable(
                f"'{upload.name}' could not be read as {chosen.media_type} ({type(error).__name__}: {error}). "
                "It may be damaged: export or save it again."
            ) from error

    def _cleaned(self, upload: Upload, reading: Reading) -> tuple[Block, ...]:
        blocks = tuple(
            Block(text, tuple(filter(None, map(clean_line, block.heading))), block.page)
            for block in reading.blocks
            if (text := clean(block.text))
        )
        if not blocks:
            raise Unparsable(f"'{upload.name}' has no text.")
        characters = sum(len(block.text) for block in blocks)
        if characters > self.options.characters:
            raise TooLarge(
                f"'{upload.name}' has {characters:,} characters of text; at most {self.options.characters:,} are read. "
                "Split it."
            )
        return blocks


def _title(upload: Upload, reading: Reading, blocks: tuple[Block, ...]) -> str:
    """What the sender says (nothing, too), else the format, else the first heading, else the name's stem."""
    said = upload.metadata.get("title")
    if isinstance(said, str):
        return clean_line(said)[:_LONGEST_TITLE]
    first = next((block.heading[0] for block in blocks if block.heading), "") if reading.headed else ""
    stem = PurePosixPath(upload.name.split("?", 1)[0].rstrip("/")).stem
    titles = (clean_line(title) for title in (reading.title, first, stem))
    return next((title for title in titles if title), upload.name)[:_LONGEST_TITLE]


def _language(upload: Upload, reading: Reading, blocks: tuple[Block, ...]) -> str | None:
    """What the sender says, else what the text shows, else what the format declares (templates declare it wrongly)."""
    if said := _code(upload.metadata.get("language")):
        return said
    return detect_language("\n".join(block.text for block in blocks[:200])) or _code(reading.language)


def _code(language: object) -> str | None:
    match = _LANGUAGE.fullmatch(language.strip()) if isinstance(language, str) else None
    return match.group(1).lower() if match else None
