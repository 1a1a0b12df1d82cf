"""Neighbours become one source: passages of one document that follow each other are read as one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.passages import Passage, Ranked

# A shared run shorter than this may be chance ("the" and "the"), and cutting it would change the text.
_LEAST_OVERLAP = 20
_MOST_OVERLAP = 2000


@dataclass(frozen=True, slots=True)
class Joined:
    """One source in the making: `ranked` is the best placed of its passages, which stand in document order."""

    ranked: Ranked
    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """The passages' texts, what one repeats of the one before it left out."""
        text = self.passages[0].text
        for before, after in zip(self.passages, self.passages[1:], strict=False):
            shared = overlap(before.text, after.text)
            text += after.text[shared:] if shared else f"\n{after.text}"
        return text

    @property
    def tokens(self) -> int:
        """As counted at ingest; where passages overlap, an upper bound."""
        return sum(passage.tokens for passage in self.passages)


def join_neighbours(chosen: Sequence[tuple[Ranked, Passage]]) -> list[Joined]:
    """Joins what follows each other by ordinal; each source takes the place of its best passage. In ranked order."""
    place = {ranked.candidate.key: number for number, (ranked, _) in enumerate(chosen)}
    in_order = sorted(chosen, key=lambda pair: (pair[1].document_id, pair[1].ordinal, place[pair[0].candidate.key]))
    sources: list[list[tuple[Ranked, Passage]]] = []
    for pair in in_order:
        if sources and _follows(sources[-1][-1][1], pair[1]):
            sources[-1].append(pair)
        else:
            sources.append([pair])
    joined = [
        Joined(
            min((ranked for ranked, _ in source), key=lambda ranked: place[ranked.candidate.key]),
            tuple(passage for _, passage in source),
        )
        for source in sources
    ]
    return sorted(joined, key=lambda source: place[source.ranked.candidate.key])


def apart(chosen: Sequence[tuple[Ranked, Passage]]) -> list[Joined]:
    """Every passage a source of its own."""
    return [Joined(ranked, (passage,)) for ranked, passage in chosen]


def overlap(before: str, after: str) -> int:
    """Characters at the start of `after` that `before` ends with: the longest run, 0 where that is too short."""
    end, opening = before[-_MOST_OVERLAP:], after[:_LEAST_OVERLAP]
    if len(opening) < _LEAST_OVERLAP:
        return 0
    found = end.find(opening)
    while found >= 0:
        if after.startswith(end[found:]):
            return len(end) - found
        found = end.find(opening, found + 1)
    return 0


def _follows(before: Passage, after: Passage) -> bool:
    return (
        before.document_id == after.document_id
        and before.source == after.source
        and (after.ordinal == before.ordinal + 1)
    )
