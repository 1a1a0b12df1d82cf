"""The lines that every page repeats: a running head, a footer, the page's number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_EDGE = 2  # lines at the top and at the bottom of a page
_MOST_PAGES = 0.6
_DIGITS = re.compile(r"\d+")
_NUMBER_ONLY = re.compile(r"\W*#\W*(?:(?:/|of|von|de|di|van)\W*#\W*)?")


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Removes them wherever they stand at the edge of a page, so that no passage is made of them.

    A line is running when it is there, numbers aside, on most pages. Where it says more than a number it is kept once,
    on the first page that has it.
    """
    counts = Counter(line for page in pages for line in {_form(edge) for edge in _edges(page)})
    running = {line for line, count in counts.items() if line and count > max(1, _MOST_PAGES * len(pages))}
    seen = {line for line in running if _NUMBER_ONLY.fullmatch(line)}
    return [_without(page, running, seen) for page in pages]


def _without(page: str, running: set[str], seen: set[str]) -> str:
    """`seen` grows by the running lines that were kept here."""
    lines = page.split("\n")
    places = set(_edge_places(lines))
    kept: list[str] = []
    for place, line in enumerate(lines):
        form = _form(line)
        if place in places and form in seen:
            continue
        if place in places and form in running:
            seen.add(form)
        kept.append(line)
    return "\n".join(kept)


def _edges(page: str) -> list[str]:
    lines = page.split("\n")
    return [lines[place] for place in _edge_places(lines)]


def _edge_places(lines: list[str]) -> list[int]:
    places = [place for place, line in enumerate(lines) if line.strip()]
    return places if len(places) <= 2 * _EDGE else [*places[:_EDGE], *places[-_EDGE:]]


def _form(line: str) -> str:
    return _DIGITS.sub("#", " ".join(line.split()))
