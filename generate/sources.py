"""A source of the context as an answer needs it: how near the question it is, and whose sentences it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from generate.sentences import Statement, statements
from pipeline.passages import Cited, Context, Leg, Passage

MIDDLING = 0.5  # the similarity that is assumed where there is none
TAIL = 60  # characters at the end of a passage by which it is found in the text that it was joined into


def stated(source: Cited) -> Iterator[tuple[Passage, Statement]]:
    """The statements of a source, each with the passage that it stands in, by which it has its headings."""
    start = 0
    for passage in source.passages:
        tail = passage.text[-TAIL:]
        found = source.text.find(tail, start)
        end = found + len(tail) if found >= 0 and passage is not source.passages[-1] else len(source.text)
        for one in statements(source.text[start:end], passage.language):
            yield passage, replace(one, start=one.start + start, end=one.end + start)
        start = end


def similarities(context: Context) -> list[float]:
    """The dense leg's inner product of the question and the best passage of each source.

    One that the leg passed over counts as the least of those that it found, all as middling where it did not run.
    """
    found = [
        max((hit.score for hit in source.ranked.candidate.hits if hit.leg is Leg.DENSE), default=None)
        for source in context.items
    ]
    least = min((one for one in found if one is not None), default=MIDDLING)
    return [least if one is None else one for one in found]
