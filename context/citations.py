"""What an answer cites: which numbers, where in its text, and which of them no source has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.passages import Context

# [1], [1, 2], [1-3], [1][2], and the full-width brackets that some models write.
_MARK = re.compile(r"[\[【]\s*\d{1,4}(?:\s*[,;\-–]\s*\d{1,4})*\s*[\]】]")
_PART = re.compile(r"(\d+)(?:\s*[\-–]\s*(\d+))?")
# Fenced blocks and `spans`: in code, [0] is an index.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_WIDEST = 20


@dataclass(frozen=True, slots=True)
class Citation:
    """One mark in an answer: `text[start:end]` cites source `number`. A mark `[1, 2]` is two with the same span."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Citations:
    """`marks` cite sources that exist, in the order of the text; `unknown` name numbers that no source has."""

    marks: tuple[Citation, ...]
    unknown: tuple[Citation, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sources cited, each once, in the order of their first mention."""
        return tuple(dict.fromkeys(mark.number for mark in self.marks))


def citations(answer: str, context: Context) -> Citations:
    """Reads the marks off an answer; code and links (`[1](…)`) are left out. Offsets are in characters."""
    code = [found.span() for found in _CODE.finditer(answer)]
    found = [
        Citation(number, mark.start(), mark.end())
        for mark in _MARK.finditer(answer)
        if not any(start <= mark.start() < end for start, end in code) and answer[mark.end() : mark.end() + 1] != "("
        for number in _numbers(mark.group())
    ]
    known = {cited.number for cited in context.items}
    return Citations(
        marks=tuple(citation for citation in found if citation.number in known),
        unknown=tuple(citation for citation in found if citation.number not in known),
    )


def _numbers(mark: str) -> list[int]:
    numbers: list[int] = []
    for first, last in _PART.findall(mark):
        start, end = int(first), int(last or first)
        # A range as wide as a span of years is not one of sources: its ends are reported, and unknown.
        numbers.extend(range(start, end + 1) if 0 <= end - start < _WIDEST else (start, end))
    return list(dict.fromkeys(numbers))
