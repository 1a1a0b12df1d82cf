"""Plain text: paragraphs between blank lines, lines that an editor wrapped joined again."""

from __future__ import annotations

import re

from ingest.cleaning import even_lines, unwrapped
from ingest.formats.charset import decode_upload
from ingest.formats.reading import ParsingOptions, Reading
from pipeline.passages import Block, Upload

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_LONGEST_HEADING = 100  # characters
_SENTENCE_ENDS = (".", ",", ";", ":", "。", "、", "؟", "।")


def read_plain_text(upload: Upload, _: ParsingOptions) -> Reading:
    """Every paragraph is a block. A short first line that stands alone and ends no sentence is the heading of all."""
    text = even_lines(decode_upload(upload)).strip("\n")
    paragraphs = [paragraph for paragraph in _BLANK_LINES.split(text) if paragraph.strip()]
    heading: tuple[str, ...] = ()
    if len(paragraphs) > 1 and _is_heading(paragraphs[0].strip()):
        heading = (paragraphs.pop(0).strip(),)
    return Reading(tuple(Block(unwrapped(paragraph), heading) for paragraph in paragraphs))


def _is_heading(paragraph: str) -> bool:
    return "\n" not in paragraph and len(paragraph) <= _LONGEST_HEADING and not paragraph.endswith(_SENTENCE_ENDS)
