"""The lines between two `---` at the top of a Markdown file: `key: value`, a value being a scalar or a list of them.

That much of YAML is what people write there; anything more is left out rather than guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.passages import Metadata, Scalar

_FENCED = re.compile(r"\A---[ \t]*\n(.{0,20000}?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.+)")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d{0,14})(\.\d{1,15})?")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What was said at the top, and the text below it."""

    pairs: Metadata
    text: str

    def word(self, *keys: str) -> str:
        """The first of these keys that has a value, as text; empty where none has."""
        return next((str(self.pairs[key]) for key in keys if self.pairs.get(key)), "")

    def without(self, *keys: str) -> Metadata:
        """All pairs but these."""
        return {key: value for key, value in self.pairs.items() if key not in keys}


def split_front_matter(text: str) -> FrontMatter:
    """Separates it from the text; a file that has none is all text."""
    match = _FENCED.match(text)
    if match is None:
        return FrontMatter({}, text)
    pairs = _pairs((match.group(1) or "").split("\n"))
    if not pairs and (match.group(1) or "").strip():  # a rule, a paragraph and another rule
        return FrontMatter({}, text)
    return FrontMatter(pairs, text[match.end() :])


def _pairs(lines: list[str]) -> Mapping[str, Scalar | tuple[Scalar, ...]]:
    pairs: dict[str, Scalar | tuple[Scalar, ...]] = {}
    listed: str | None = None
    for line in lines:
        if pair := _PAIR.fullmatch(line.rstrip()):
            key, value = pair.group(1), (pair.group(2) or "").strip()
            listed = None if value else key
            if value.startswith("[") and value.endswith("]"):
                pairs[key] = tuple(_scalar(part) for part in value[1:-1].split(",") if part.strip())
            elif value and value[0] not in "{|>&*!":
                pairs[key] = _scalar(value)
        elif listed and (item := _ITEM.fullmatch(line.rstrip())):
            before = pairs.get(listed, ())
            pairs[listed] = (*(before if isinstance(before, tuple) else ()), _scalar(item.group(1)))
        elif line.strip():
            listed = None
    return pairs


def _scalar(text: str) -> Scalar:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    text = re.sub(r"\s+#.*", "", text)
    if text in {"true", "false"}:
        return text == "true"
    if number := _NUMBER.fullmatch(text):
        return float(text) if number.group(1) else int(text)
    return text
