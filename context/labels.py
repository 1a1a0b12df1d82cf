"""What a source is called: title, heading path and pages on one line."""

from __future__ import annotations

from itertools import takewhile

from pipeline.passages import Cited

_LONGEST = 200


def label(cited: Cited) -> str:
    """`Title › Heading › Subheading (p. 3)`; of joined neighbours the headings they share and `(pp. 3-4)`.

    The document's own name stands in for a missing title. One line, cut at 200 characters before the pages.
    """
    first = cited.passages[0]
    title = one_line(first.title) or one_line(first.source)
    shared = [
        parts[0]
        for parts in takewhile(
            lambda parts: len(set(parts)) == 1, zip(*(passage.heading for passage in cited.passages), strict=False)
        )
    ]
    headings = [heading for heading in map(one_line, shared) if heading and heading != title]
    named = " › ".join([title, *headings])
    shown = named if len(named) <= _LONGEST else f"{named[: _LONGEST - 1]}…"
    return f"{shown}{_pages(cited)}"


def one_line(text: str) -> str:
    """Runs of white space, line breaks of any script among them, become one space; control characters go."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _pages(cited: Cited) -> str:
    pages = sorted({passage.page for passage in cited.passages if passage.page is not None})
    if not pages:
        return ""
    return f" (p. {pages[0]})" if len(pages) == 1 else f" (pp. {pages[0]}-{pages[-1]})"
