"""What Word's styles and numbering make of a paragraph: a heading, the title, an item of a list."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.formats.element import Element, attribute, child, local

_HEADING = re.compile(r"heading ([1-9])")
_CONTENTS = re.compile(r"toc (?:\d|heading)|table of figures")
_ANCESTORS = 12  # styles may be based on each other in a circle
_DEEPEST = 9


@dataclass(frozen=True, slots=True)
class Item:
    """A place in a list: which numbering, and how deep (from 0). Numbering "0" takes a paragraph out of its list."""

    numbering: str
    level: int


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    based_on: str
    outline: int | None
    item: Item | None


class WordStyles:
    """Styles by id. Names are English whatever the language of the word processor."""

    def __init__(self, styles: Mapping[str, _Style], language: str = "") -> None:
        self._styles = styles
        self._chains: dict[str, tuple[_Style, ...]] = {}
        self.language = language

    @classmethod
    def of(cls, root: Element | None) -> WordStyles:
        """From the part `styles`; a document may have none."""
        if root is None:
            return cls({})
        found = {
            attribute(style, "styleId") or "": _Style(
                (_value(style, "name") or "").lower(),
                _value(style, "basedOn") or "",
                _number(_value(style, "pPr", "outlineLvl")),
                _item(child(style, "pPr")),
            )
            for style in root
            if local(style) == "style"
        }
        return cls(found, _value(root, "docDefaults", "rPrDefault", "rPr", "lang") or "")

    def level(self, paragraph: Element) -> int | None:
        """The level of a heading, from 1; None for what is none."""
        own = _number(_value(paragraph, "pPr", "outlineLvl"))
        if own is not None:
            return own + 1 if own < _DEEPEST else None
        for style in self._chain(paragraph):
            if named := _HEADING.fullmatch(style.name):
                return int(named.group(1))
            if style.outline is not None:
                return style.outline + 1 if style.outline < _DEEPEST else None
        return None

    def is_title(self, paragraph: Element) -> bool:
        return any(style.name == "title" for style in self._chain(paragraph))

    def is_contents(self, paragraph: Element) -> bool:
        """A line of the table of contents says nothing that the headings do not say."""
        return any(_CONTENTS.fullmatch(style.name) for style in self._chain(paragraph))

    def item(self, paragraph: Element) -> Item | None:
        """Its place in a list, by itself or by its style; None for what is in none."""
        chain = self._chain(paragraph)
        for item in (_item(child(paragraph, "pPr")), *(style.item for style in chain)):
            if item is not None:
                return item if item.numbering != "0" else None
        return Item("", 0) if chain and chain[0].name.startswith("list bullet") else None

    def _chain(self, paragraph: Element) -> tuple[_Style, ...]:
        """Its style and those that it is based on, the nearest first."""
        name = _value(paragraph, "pPr", "pStyle") or ""
        if name not in self._chains:
            chain: list[_Style] = []
            style = self._styles.get(name)
            while style is not None and len(chain) < _ANCESTORS:
                chain.append(style)
                style = self._styles.get(style.based_on)
            self._chains[name] = tuple(chain)
        return self._chains[name]


class WordNumbering:
    """Marks for the items of lists, counted as the document is read from its beginning."""

    def __init__(self, formats: Mapping[str, Mapping[int, str]]) -> None:
        self._formats = formats
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0] * _DEEPEST)

    @classmethod
    def of(cls, root: Element | None) -> WordNumbering:
        """From the part `numbering`; a document may have none."""
        if root is None:
            return cls({})
        abstract: dict[str, dict[int, str]] = {}
        formats: dict[str, Mapping[int, str]] = {}
        for entry in root:
            if local(entry) == "abstractNum":
                levels = [level for level in entry if local(level) == "lvl"]
                abstract[attribute(entry, "abstractNumId") or ""] = {
                    _number(attribute(level, "ilvl")) or 0: _value(level, "numFmt") or "" for level in levels
                }
            elif local(entry) == "num":
                formats[attribute(entry, "numId") or ""] = abstract.get(_value(entry, "abstractNumId") or "", {})
        return cls(formats)

    def mark(self, item: Item) -> str:
        """What stands before the item, as `- ` or `3. `, and counts it."""
        form = self._formats.get(item.numbering, {}).get(item.level, "bullet")
        counts = self._counts[item.numbering]
        counts[item.level] += 1
        counts[item.level + 1 :] = [0] * (_DEEPEST - item.level - 1)
        if form in {"bullet", "none", ""}:
            return "- "
        count = counts[item.level]
        letter = chr(ord("a") + (count - 1) % 26)
        return {"lowerLetter": f"{letter}. ", "upperLetter": f"{letter.upper()}. "}.get(form, f"{count}. ")


def _item(properties: Element | None) -> Item | None:
    if properties is None or (numbering := _value(properties, "numPr", "numId")) is None:
        return None
    level = _number(_value(properties, "numPr", "ilvl")) or 0
    return Item(numbering, min(level, _DEEPEST - 1))


def _value(element: Element, *path: str) -> str | None:
    found = child(element, *path)
    return None if found is None else attribute(found, "val")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 4 else None
