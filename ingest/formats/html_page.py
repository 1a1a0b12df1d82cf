"""HTML: the main content of a page, its headings kept as heading paths, lists and tables as lines.

trafilatura alone is not used for every page: version 2.3.1 turned a small page with headings, a table, a list and a
menu into one run of words, menu included. Pages that name their main content, and small ones, are therefore read as
they stand; only long pages of anonymous <div>s go through it, and only if it keeps enough of them.
"""

from __future__ import annotations

import re

from trafilatura import bare_extraction

from ingest.formats.charset import decode_upload
from ingest.formats.element import Element, parse_html
from ingest.formats.headings import Headings
from ingest.formats.markup import collect, text_of
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.surroundings import is_hidden
from pipeline.errors import TooLarge
from pipeline.passages import Block, Upload

_DECLARED = re.compile(
    rb"<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,100}?encoding)\s{0,9}=\s{0,9}[\"']?([\w.:-]{2,40})", re.IGNORECASE
)
_LONGEST_TEXT = 10_000_000  # libxml2's bound on one piece of text, beyond which it gives nothing at all
_SMALL = 2000  # characters
_KEPT_ENOUGH = 0.3

# trafilatura's XML (TEI) in terms of HTML
_NAMES = {"list": "ul", "item": "li", "row": "tr", "cell": "td", "lb": "br", "quote": "blockquote"}


def read_html(upload: Upload, _: ParsingOptions) -> Reading:
    """The page's main content. What <title> says is the title, unless the page's only <h1> is a part of it."""
    declared = _DECLARED.search(upload.content[:4096])
    text = decode_upload(upload, declared.group(1).decode("ascii", "replace") if declared else None)
    root = parse_html(text)
    if (root is None or not any(root.itertext())) and len(text) > _LONGEST_TEXT:
        raise TooLarge(
            f"'{upload.name}' has {len(text):,} characters, most of them in one piece that no markup divides; at most "
            f"{_LONGEST_TEXT:,} in one piece are read as HTML. Split it."
        )
    if root is None:
        return Reading(())
    main = _main_content(root)
    blocks = _blocks(root if main is None else main) or _blocks(root)
    if main is None and _size(blocks) > _SMALL:
        blocks = _without_boilerplate(text, blocks)
    return Reading(blocks, _title(root), language=_language(root))


def _blocks(root: Element) -> tuple[Block, ...]:
    headings = Headings()
    collect(root, headings)
    return headings.blocks()


def _main_content(root: Element) -> Element | None:
    """<main> or role=main; else the only <article>. None where the page does not say."""
    for element in root.iter():
        if (element.tag == "main" or element.get("role") == "main") and not is_hidden(element):
            return element
    articles = list(root.iter("article"))
    return articles[0] if len(articles) == 1 else None


def _without_boilerplate(text: str, whole: tuple[Block, ...]) -> tuple[Block, ...]:
    """Losing text is worse than keeping a menu: the whole page stands where less than 30 % of it would be kept."""
    extracted = bare_extraction(text, include_comments=False, include_formatting=False, favor_recall=True)
    body: Element | None = getattr(extracted, "body", None)
    if body is None:
        return whole
    for element in body.iter():
        if element.tag == "head":
            element.tag = element.get("rend") or "h2"
        elif element.tag == "code" and "\n" in "".join(element.itertext()):
            element.tag = "pre"
        else:
            element.tag = _NAMES.get(str(element.tag), element.tag)
    kept = _blocks(body)
    return kept if _size(kept) >= _KEPT_ENOUGH * _size(whole) else whole


def _language(root: Element) -> str | None:
    """As <html> declares it, or else <body>."""
    for element in root.iter("html", "body"):
        if said := element.get("lang") or element.get("xml:lang"):
            return said.lower()
    return None


def _title(root: Element) -> str:
    """<title>, or what the page is called where it is shared."""
    shared = (meta.get("content") or "" for meta in root.iter("meta") if meta.get("property") == "og:title")
    declared = next((text_of(title) for title in root.iter("title")), "") or next(shared, "")
    first = [text_of(heading) for heading in root.iter("h1")]
    return first[0] if len(first) == 1 and first[0] and first[0] in declared else declared


def _size(blocks: tuple[Block, ...]) -> int:
    return sum(len(block.text) for block in blocks)
