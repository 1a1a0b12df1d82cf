"""What is used of lxml's elements, typed: lxml brings no types of its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol, cast


class Element(Protocol):
    """An element of a parsed page or document. `tag` is no string for comments and processing instructions."""

    tag: object
    text: str | None
    tail: str | None

    def get(self, key: str, /) -> str | None: ...

    def iter(self, *tags: str) -> Iterator[Element]: ...

    def itertext(self) -> Iterator[str]: ...

    def __iter__(self) -> Iterator[Element]: ...

    def getparent(self) -> Element | None: ...


def parse_html(text: str) -> Element | None:
    """A page's root, read as forgivingly as a browser does; None where there is nothing to read.

    Nothing is fetched, HTML knows no custom entities, and libxml2 bounds depth (256) and text (no huge_tree).
    """
    html: Any = import_module("lxml.html")
    options = {"encoding": "utf-8", "remove_comments": True, "remove_pis": True, "no_network": True}
    content = text.encode("utf-8", "replace")  # "replace" for lone surrogates, which UTF-8 cannot hold
    try:
        root = html.document_fromstring(content, parser=html.HTMLParser(**options))
    except import_module("lxml.etree").ParserError:  # only comments, or nothing at all
        return None
    return cast("Element", root)
