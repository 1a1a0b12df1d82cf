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
    """One source in the making: `ranked` is the best placed of its passages, which stand in document order.

    `keys` are the passages' places on the shelf.
    """

    ranked: Ranked
    passages: tuple[Passage, ...]
    keys: tuple[int, ...]

    @classmethod
    def alone(cls, ranked: Ranked, passage: Passage) -> Joined:
        """A passage by itself."""
        return cls(ranked, (passage,), (ranked.candidate.key,))

    @property
    def text(self) -> str:
        """The passages' texts, what one repeats of those before it left out."""
        text = self.passages[0].text
        end = self.passages[0].start + len(text)  # of what is written so far, in the section's own text
        for before, after in zip(self.passages, self.passages[1:], strict=False):
            behind = after.start + len(after.text)
            if before.parent and before.parent == after.parent:
                text += after.text[end - after.start :] if after.start <= end else f"\n{after.text}"
                end = max(end, behind)
            else:
                # Passages of two sections share nothing; of earlier generations nobody has written down what they do.
                shared = 0 if before.parent and after.parent else overlap(before.text, after.text)
                text += after.text[shared:] if shared else f"\n{after.text}"
                end = behind
        return text

    @property
    def tokens(self) -> int:
        """As counted at ingest; where passages overlap, an upper bound."""
        return sum(passage.tokens for passage in self.passages)


def join_neighbours(sources: Sequence[Joined]) -> list[Joined]:
    """Joins what follows each other by ordinal; each source takes the place of its best passage. In ranked order."""
    place = {source.ranked.candidate.key: number for number, source in enumerate(sources)}
    in_order = sorted(
        sources,
        key=lambda source: (
            source.passages[0].document_id,
            source.passages[0].ordinal,
            place[source.ranked.candidate.key],
        ),
    )
    runs: list[list[Joined]] = []
    for source in in_order:
        if runs and _follows(runs[-1][-1].passages[-1], source.passages[0]):
            runs[-1].append(source)
        else:
            runs.append([source])
    joined = [
        Joined(
            min((source.ranked for source in run), key=lambda ranked: place[ranked.candidate.key]),
            tuple(passage for source in run for passage in source.passages),
            tuple(key for source in run for key in source.keys),
        )
        for run in runs
    ]
    return sorted(joined, key=lambda source: place[source.ranked.candidate.key])


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
