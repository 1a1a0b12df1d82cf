"""Plain text: paragraphs between blank lines, lines that an editor wrapped joined again."""

from __future__ import annotations

import re

from ingest.cleaning import even_lines, unwrapped
from ingest.formats.charset import decode
from ingest.formats.reading import ParsingOptions, Reading
from pipeline.passages import Block, Upload

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")


def read_plain_text(upload: Upload, _: ParsingOptions) -> Reading:
    """Every paragraph is a block; plain text declares no title and no headings."""
    text = even_lines(decode(upload.content, upload.name))
    return Reading(tuple(Block(unwrapped(paragraph)) for paragraph in _BLANK_LINES.split(text) if paragraph.strip()))
