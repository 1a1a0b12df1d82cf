"""Runs of a document that belong under one heading: what a passage may span."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from pipeline.passages import Block

GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class Section:
    """Text under one heading path. At `starts[i]` begins the text that is on `pages[i]` and under `headings[i]`."""

    text: str
    heading: tuple[str, ...]
    starts: tuple[int, ...]
    pages: tuple[int | None, ...]
    headings: tuple[tuple[str, ...], ...]

    def page(self, offset: int) -> int | None:
        """The page of the block that holds the character at `offset`."""
        return self.pages[bisect_right(self.starts, offset) - 1]

    def heading_at(self, offset: int) -> tuple[str, ...]:
        """The full heading path of that block, also where several share a section."""
        return self.headings[bisect_right(self.starts, offset) - 1]


def sections_of(blocks: Iterable[Block]) -> list[Section]:
    """One section for each run of blocks that share a heading path, in the document's order."""
    return [_section(heading, list(run)) for heading, run in groupby(blocks, key=lambda block: block.heading)]


def merged(sections: Iterable[Section], minimum: int, capacity: int, count: Callable[[str], int]) -> list[Section]:
    """Joins a tiny section to its neighbour under the same top heading, or a preamble to what follows, if it fits."""
    result: list[Section] = []
    parts: list[Section] = []
    sizes: list[int] = []
    for section in sections:
        size = count(section.text)
        if parts and _may_join(parts, sizes, section, size, minimum, capacity):
            together = joined([*parts, section])
            if count(together.text) <= capacity:
                parts.append(section)
                sizes.append(size)
                continue
        if parts:
            result.append(joined(parts))
        parts, sizes = [section], [size]
    return [*result, joined(parts)] if parts else result


def _may_join(parts: list[Section], sizes: list[int], section: Section, size: int, minimum: int, capacity: int) -> bool:
    tiny = size < minimum or sizes[-1] < minimum
    related = parts[-1].heading[:1] == section.heading[:1] or not parts[0].heading  # what precedes all headings
    return tiny and related and sum(sizes) + size <= capacity


def _section(heading: tuple[str, ...], blocks: list[Block]) -> Section:
    ends = accumulate(len(block.text) + len(GAP) for block in blocks)
    return Section(
        GAP.join(block.text for block in blocks),
        heading,
        (0, *ends)[:-1],
        tuple(block.page for block in blocks),
        (heading,) * len(blocks),
    )


def joined(parts: Sequence[Section]) -> Section:
    """Several sections as one, or the only one as it is.

    What the joined heading path no longer says is put above each part, so that nothing loses its heading.
    """
    if len(parts) == 1:
        return parts[0]
    heading = _common([part.heading for part in parts])
    texts: list[str] = []
    starts: list[int] = []
    offset = 0
    for part in parts:
        below = " > ".join(part.heading[len(heading) :])
        text = f"{below}\n{part.text}" if below else part.text
        starts += [offset, *(offset + len(text) - len(part.text) + start for start in part.starts[1:])]
        texts.append(text)
        offset += len(text) + len(GAP)
    pages = tuple(page for part in parts for page in part.pages)
    headings = tuple(path for part in parts for path in part.headings)
    return Section(GAP.join(texts), heading, tuple(starts), pages, headings)


def _common(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    same = 0
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        same += 1
    return paths[0][:same]
