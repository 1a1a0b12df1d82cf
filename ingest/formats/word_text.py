"""The text of Word's paragraphs: what a reader of the finished document would see, and the notes it points to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingest.formats.element import Element, attribute, child, local

_WRAPPERS = frozenset({"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "AlternateContent", "Choice"})
_UNSEEN = frozenset({
    "pPr", "rPr", "sectPr", "del", "moveFrom", "delText", "instrText", "Fallback", "rt", "txbxContent", "sdtPr",
})  # fmt: skip
_SPACES = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": " "}
_NOTES = frozenset({"footnoteReference", "endnoteReference"})


def content(container: Element, *tags: str) -> Iterator[Element]:
    """Children of these local tags, those inside content controls and tracked insertions and moves too."""
    for inner in container:
        name = local(inner)
        if name in tags:
            yield inner
        elif name in _WRAPPERS:
            yield from content(inner, *tags)


def boxes(paragraph: Element) -> Iterator[Element]:
    """The contents of text boxes that hang on a paragraph. Each is there twice, the second time for old programs."""
    for inner in paragraph:
        if local(inner) == "txbxContent":
            yield inner
        elif local(inner) not in {"Fallback", "del", "moveFrom"}:
            yield from boxes(inner)


class WordText:
    """Reads paragraphs. A note gets its number when its place is read, and waits to be taken with `take_notes`."""

    def __init__(self, notes: Mapping[tuple[str, str], Element]) -> None:
        self._notes = notes
        self._waiting: list[str] = []
        self._count = 0

    def of(self, paragraph: Element, *, numbered: bool = True) -> str:
        """Inserted text counts; deleted and hidden text, field codes and readings above characters do not."""
        pieces: list[str] = []
        self._collect(paragraph, pieces, numbered=numbered)
        return "".join(pieces)

    def of_cell(self, cell: Element) -> str:
        """Everything in a cell of a table on one line: paragraphs, text boxes, a table within the table."""
        pieces: list[str] = []
        for inner in content(cell, "p", "tbl"):
            if local(inner) == "p":
                pieces.append(self.of(inner))
                pieces += [self.of_cell(box) for box in boxes(inner)]
            else:
                pieces += [self.of_cell(c) for row in content(inner, "tr") for c in content(row, "tc")]
        return " ".join(filter(None, pieces))

    def take_notes(self) -> list[str]:
        """The notes met since the last time, a line each."""
        taken, self._waiting = self._waiting, []
        return taken

    def _collect(self, element: Element, pieces: list[str], *, numbered: bool) -> None:
        for inner in element:
            name = local(inner)
            if name == "t":
                pieces.append(inner.text or "")
            elif name in _SPACES:
                pieces.append(_SPACES[name])
            elif name in _NOTES:
                mark = self._note(name, attribute(inner, "id") or "")
                pieces.append(mark if numbered else "")
            elif name not in _UNSEEN and not (name == "r" and _is_hidden(inner)):
                self._collect(inner, pieces, numbered=numbered)

    def _note(self, reference: str, number: str) -> str:
        note = self._notes.get((reference.removesuffix("Reference"), number))
        if note is None:
            return ""
        self._count += 1
        mark = f"[{self._count}]"
        inner = WordText({})
        text = " ".join(inner.of(paragraph).strip() for paragraph in content(note, "p"))
        self._waiting.append(f"{mark} {text.strip()}")
        return mark


def _is_hidden(run: Element) -> bool:
    vanish = child(run, "rPr", "vanish")
    return vanish is not None and attribute(vanish, "val") not in {"0", "false", "off"}
