"""The lines that pages repeat: a running head, a footer, the page's number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_EDGE = 2  # lines at the top and at the bottom of a page
_MOST_PAGES = 0.6
_RUN = 3  # pages of a chapter that have its title at their edge, on the same side of the book
_DIGITS = re.compile(r"\d{1,6}")
_ROMAN = re.compile(r"(?=[ivxlc])(c{0,3})(x[lc]|l?x{0,3})(i[vx]|v?i{0,3})", re.IGNORECASE)
_ROMAN_VALUES = {"c": 100, "l": 50, "x": 10, "v": 5, "i": 1}
_NUMBER_ONLY = re.compile(r"\W*#\W*(?:(?:/|of|von|de|di|van)\W*#\W*)?")
_LONGEST_NUMBER = 40  # characters


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Removes them wherever they stand at the edge of a page, so that no passage is made of them.

    A line is running when it is there, but for a number that counts the pages, on most pages, on most left or right
    ones, or on several left or right ones in a row, as chapter titles are. Where it says more than a number it is kept
    once, on the first page that has it.
    """
    edges = [
        {form for line in _edges(page) for form in _forms(line, number)} for number, page in enumerate(pages, start=1)
    ]
    running = _on_most(edges, at_least=2)
    for side in (edges[0::2], edges[1::2]):
        running |= _on_most(side, at_least=_RUN) | _in_a_row(side)
    seen: set[str] = set()
    return [_without(page, number, running, seen) for number, page in enumerate(pages, start=1)]


def _on_most(edges: Sequence[set[str]], at_least: int) -> set[str]:
    counts = Counter(form for forms in edges for form in forms)
    return {form for form, count in counts.items() if count >= at_least and count > _MOST_PAGES * len(edges)}


def _in_a_row(edges: Sequence[set[str]]) -> set[str]:
    found: set[str] = set()
    for place in range(len(edges) - _RUN + 1):
        found |= edges[place].intersection(*edges[place + 1 : place + _RUN])
    return found


def _without(page: str, number: int, running: set[str], seen: set[str]) -> str:
    """`seen` grows by the running lines that were kept here."""
    lines = page.split("\n")
    places = set(_edge_places(lines))
    kept: list[str] = []
    for place, line in enumerate(lines):
        forms = _forms(line, number) & running if place in places else set[str]()
        if forms and (forms & seen or _is_number(line)):
            continue
        seen |= forms
        kept.append(line)
    return "\n".join(kept)


def _edges(page: str) -> list[str]:
    lines = page.split("\n")
    return [lines[place] for place in _edge_places(lines)]


def _edge_places(lines: list[str]) -> list[int]:
    places = [place for place, line in enumerate(lines) if line.strip()]
    return places if len(places) <= 2 * _EDGE else [*places[:_EDGE], *places[-_EDGE:]]


def _forms(line: str, page: int) -> set[str]:
    """The line as it is, and with its first or last number as its distance from the page: equal on every page then.

    Rows of a table of numbers stay different, which they would not if numbers were left out of account.
    """
    words = " ".join(line.split())
    if (value := _roman(words)) is not None:
        return {f"#{value - page}"}
    numbers = list(_DIGITS.finditer(words))
    counted = {
        f"{words[: number.start()]}#{int(number.group()) - page}{words[number.end() :]}"
        for number in (*numbers[:1], *numbers[-1:])
    }
    return {words, *counted}


def _is_number(line: str) -> bool:
    words = " ".join(line.split())
    return len(words) <= _LONGEST_NUMBER and (
        _roman(words) is not None or bool(_NUMBER_ONLY.fullmatch(_DIGITS.sub("#", words)))
    )


def _roman(words: str) -> int | None:
    """The value of a Roman number that stands alone, as on the first pages of a book."""
    match = _ROMAN.fullmatch(words.strip(" -–—·|[]()").lower())
    if match is None:
        return None
    values = [_ROMAN_VALUES[letter] for letter in match.group()]
    return sum(-value if value < max(values[place:]) else value for place, value in enumerate(values))
