"""PPTX: a page for each slide under its title; text boxes, tables, drawings made of text, and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterator

from ingest.formats.element import Element, child, children, local
from ingest.formats.headings import Headings
from ingest.formats.office_package import OfficePackage, relation_of
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.tables import table_lines
from pipeline.passages import Upload

_TITLES = frozenset({"title", "ctrTitle"})
_ON_EVERY_SLIDE = frozenset({"dt", "ftr", "hdr", "sldNum", "sldImg"})
_DEEPEST = 8


def read_presentation(upload: Upload, options: ParsingOptions) -> Reading:
    """Slides in the order in which they are shown. Hidden ones are left out, and a warning says which."""
    headings = Headings()
    hidden: list[int] = []
    with OfficePackage.open(upload, options) as package:
        for number, part in enumerate(_slides(package), start=1):
            slide = package.xml(part)
            if slide.get("show") in {"0", "false"}:
                hidden.append(number)
            else:
                _Slide(package, part, number, headings).read(slide)
        title = package.title
    listed = ", ".join(map(str, hidden))
    warnings = (f"Hidden slides were not read: {listed}.",) if hidden else ()
    return Reading(headings.blocks(), "" if title.lower() == "powerpoint presentation" else title, warnings=warnings)


def _slides(package: OfficePackage) -> Iterator[str]:
    """Each slide once, however often the list names it."""
    related = package.related(package.main)
    ids = [relation_of(entry) for entry in children(package.xml(package.main), "sldIdLst")]
    parts = dict.fromkeys(related[id_].part for id_ in ids if id_ in related)
    yield from (part for part in parts if package.has(part))


class _Slide:
    """One slide: its title first, wherever it was drawn, then everything else in the order in which it was drawn."""

    def __init__(self, package: OfficePackage, part: str, number: int, headings: Headings) -> None:
        self._package = package
        self._part = part
        self._number = number
        self._headings = headings

    def read(self, slide: Element) -> None:
        """Adds the slide's blocks, all of them on its page."""
        tree = child(slide, "cSld", "spTree")
        shapes = list(_shapes(tree)) if tree is not None else []
        titles = [shape for shape in shapes if _placeholder(shape) in _TITLES and _text(shape).strip()]
        self._headings.enter(1, _text(titles[0]) if titles else "")
        for shape in shapes:
            if shape not in titles[:1] and _placeholder(shape) not in _ON_EVERY_SLIDE:
                self._add(self._content(shape))
        self._add(self._notes())

    def _add(self, text: str) -> None:
        self._headings.add(text, self._number)

    def _content(self, shape: Element) -> str:
        if local(shape) != "graphicFrame":
            return _text(shape)
        drawn = child(shape, "graphic", "graphicData")
        table = child(drawn, "tbl") if drawn is not None else None
        if table is not None:
            return "\n".join(_table(table))
        diagram = child(drawn, "relIds") if drawn is not None else None
        return self._diagram(relation_of(diagram, "dm")) if diagram is not None else ""

    def _diagram(self, relation: str) -> str:
        """The words of a drawing such as a process or a hierarchy, in the order in which they were entered."""
        target = self._package.related(self._part).get(relation)
        if target is None or not self._package.has(target.part):
            return ""
        texts = (_text(point).strip() for point in children(self._package.xml(target.part), "ptLst"))
        return "\n".join(f"- {' '.join(text.split())}" for text in texts if text)

    def _notes(self) -> str:
        part = self._package.related_part(self._part, "notesSlide")
        tree = child(self._package.xml(part), "cSld", "spTree") if part else None
        shapes = [] if tree is None else list(_shapes(tree))
        texts = [_text(shape) for shape in shapes if _placeholder(shape) not in _ON_EVERY_SLIDE]
        said = "\n".join(text for text in texts if text.strip())
        return f"Notes: {said}" if said else ""


def _shapes(container: Element) -> Iterator[Element]:
    """Shapes and frames, those in groups too; of alternatives for new and old programs the first."""
    for shape in container:
        name = local(shape)
        if name in {"sp", "graphicFrame", "cxnSp"}:
            yield shape
        elif name == "grpSp":
            yield from _shapes(shape)
        elif name == "AlternateContent":
            chosen = child(shape, "Choice")
            if chosen is not None:
                yield from _shapes(chosen)


def _placeholder(shape: Element) -> str:
    """What kind of place of the layout it fills: `title`, `body`, `ftr`; empty for what stands free."""
    for inner in shape:
        place = child(inner, "nvPr", "ph")
        if place is not None:
            return place.get("type") or "body"
    return ""


def _text(shape: Element) -> str:
    """Paragraphs as lines, deeper ones as items of a list."""
    lines: list[str] = []
    for paragraph in _paragraphs(shape):
        text = "".join(_runs(paragraph)).strip()
        properties = child(paragraph, "pPr")
        level = (properties.get("lvl") if properties is not None else None) or "0"
        depth = min(int(level), _DEEPEST) if level.isascii() and level.isdecimal() and len(level) < 3 else 0
        if text:
            lines.append(f"{'  ' * (depth - 1)}- {text}" if depth else text)
    return "\n".join(lines)


def _paragraphs(element: Element) -> Iterator[Element]:
    for inner in element:
        if local(inner) == "p":
            yield inner
        elif local(inner) != "Fallback":
            yield from _paragraphs(inner)


def _runs(paragraph: Element) -> Iterator[str]:
    for inner in paragraph:
        if local(inner) == "br":
            yield "\n"
        elif local(inner) == "t":
            yield inner.text or ""
        elif local(inner) not in {"pPr", "rPr", "Fallback"}:
            yield from _runs(inner)


def _table(table: Element) -> list[str]:
    properties = child(table, "tblPr")
    headed = properties is not None and properties.get("firstRow") in {"1", "true"}
    rows = [[_text(cell) for cell in row if local(cell) == "tc"] for row in table if local(row) == "tr"]
    return table_lines(rows, headed=headed)
