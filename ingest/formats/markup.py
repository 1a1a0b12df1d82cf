"""From marked-up text to blocks: headings to heading paths, lists and tables to lines, menus and scripts to nothing."""

from __future__ import annotations

from ingest.formats.element import Element
from ingest.formats.headings import Headings
from ingest.formats.html_tables import html_table_lines
from ingest.formats.surroundings import is_hidden, is_surrounding

_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "form", "header", "hr", "html", "legend", "li", "main", "ol", "p", "pre", "section",
    "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu"})
_STRUCTURE = frozenset({*_HEADINGS, "table", "pre", "article", "section"})


def collect(root: Element, headings: Headings) -> None:
    """Adds the text under `root` to `headings`, in the order of the page."""
    page = _Page(headings)
    page.walk(root)
    page.flush()


class _Page:
    """Gathers inline text until a block begins or ends. Recursion is bounded by the parser's depth, 256."""

    def __init__(self, headings: Headings) -> None:
        self._headings = headings
        self._pieces: list[str] = []

    def flush(self) -> None:
        self._headings.add(_lines("".join(self._pieces)))
        self._pieces.clear()

    def walk(self, element: Element) -> None:
        tag = element.tag
        if not isinstance(tag, str) or _is_left_out(element):
            return
        if tag in _HEADINGS:
            self.flush()
            self._headings.enter(_HEADINGS[tag], text_of(element))
        elif tag in _LISTS and not _holds(element, _STRUCTURE):
            self.flush()
            self._headings.add("\n".join(_list_lines(element, 0)))
        elif tag == "table" and _is_data(element):
            self.flush()
            self._headings.add("\n".join(html_table_lines(element, text_of)))
        elif tag == "pre":
            self.flush()
            self._headings.add("".join(element.itertext()).strip("\r\n"))
        elif tag == "br":
            self._pieces.append("\v")
        else:
            self._descend(element, is_block=tag in _BLOCKS)

    def _descend(self, element: Element, *, is_block: bool) -> None:
        if is_block:
            self.flush()
        self._pieces.append(_blanks(element.text))
        for child in element:
            self.walk(child)
            self._pieces.append(_blanks(child.tail))
        if is_block:
            self.flush()


def text_of(element: Element) -> str:
    """All visible text of an element on one line."""
    return _one_line(_visible(element))


def _visible(element: Element, without: frozenset[str] = frozenset()) -> list[str]:
    pieces = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str) and child.tag not in without and not _is_left_out(child):
            gap = " " if child.tag in _BLOCKS or child.tag == "br" else ""
            pieces += [gap, *_visible(child, without), gap]
        pieces.append(child.tail or "")
    return pieces


def _list_lines(element: Element, depth: int) -> list[str]:
    lines: list[str] = []
    items = [child for child in element if isinstance(child.tag, str) and not _is_left_out(child)]
    for number, item in enumerate(items, start=1):
        if item.tag in _LISTS:
            lines += _list_lines(item, depth + 1)
            continue
        mark = f"{number}." if element.tag == "ol" else "-"
        if text := _one_line(_visible(item, without=_LISTS)):
            lines.append(f"{'  ' * depth}{mark} {text}")
        for inner in _outermost_lists(item):
            lines += _list_lines(inner, depth + 1)
    return lines


def _outermost_lists(element: Element) -> list[Element]:
    found: list[Element] = []
    for child in element:
        if child.tag in _LISTS:
            found.append(child)
        else:
            found += _outermost_lists(child)
    return found


def _is_data(table: Element) -> bool:
    """Tables that only lay out a page, as old ones do, have one cell in a row or hold the page's own structure."""
    if table.get("role") == "presentation" or _holds(table, _STRUCTURE):
        return False
    return any(sum(cell.tag in {"td", "th"} for cell in row) > 1 for row in table.iter("tr"))


def _holds(element: Element, tags: frozenset[str]) -> bool:
    return any(other is not element for other in element.iter(*sorted(tags)))


def _is_left_out(element: Element) -> bool:
    return is_hidden(element) or is_surrounding(element)


def _one_line(pieces: list[str]) -> str:
    return " ".join("".join(pieces).split())


def _blanks(text: str | None) -> str:
    """A line end in the source is a blank on the page; only <br> (here \\v) ends a line."""
    return " ".join(f"|{text}|".split())[1:-1] if text else ""


def _lines(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.split("\v")).strip("\n")
