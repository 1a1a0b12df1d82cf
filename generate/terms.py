"""Words as things to compare: folded, cut where a script has no spaces, and matched by how they begin.

A stand-in for stemming that needs no dictionary and works for many languages: two words are related when they share
nearly all of their beginning, or when one is the last part of the other (German compounds).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Letters and digits of any script with the marks that belong to them; `\w` alone would cut Hindi and Thai words apart.
WORD = re.compile(
    r"(?:[^\W_]|[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd])+"
)
ACCENTS = re.compile(r"[\u0300-\u036f]")
UNSPACED = re.compile(r"[\u3040-\u309f]+|[\u30a0-\u30ff]+|[\u3400-\u4dbf\u4e00-\u9fff]+|[\u0e00-\u0eff]+")
HIRAGANA = range(0x3040, 0x30A0)
KATAKANA = range(0x30A0, 0x3100)
THAI_TO_LAO = range(0x0E00, 0x0F00)
ARABIC_ARTICLE = "ال"


def folded(text: str) -> str:
    """Lower case without accents, in one spelling of each character."""
    return unicodedata.normalize("NFC", ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())))


def terms(text: str) -> list[str]:
    """The terms of a text, in order; scripts without spaces give overlapping pairs (Thai and Lao: triples)."""
    found: list[str] = []
    for word in WORD.findall(folded(text)):
        if UNSPACED.search(word) is None:
            bare = word.removeprefix(ARABIC_ARTICLE)
            found.append(bare if len(bare) > 2 else word)
        else:
            found.extend(_pieces(word))
    return found


def unspaced(term: str) -> bool:
    """Whether a term is a piece of a script without spaces, which only its equal is related to."""
    return UNSPACED.match(term) is not None


def _pieces(word: str) -> Iterator[str]:
    end = 0
    for run in UNSPACED.finditer(word):
        if run.start() > end:
            yield word[end : run.start()]
        end = run.end()
        text, script = run.group(), ord(run.group()[0])
        if script in KATAKANA:  # as a rule one borrowed word
            yield text
        elif script not in HIRAGANA:  # which are particles and endings
            length = 3 if script in THAI_TO_LAO else 2
            for start in range(max(len(text) - length + 1, 1)):
                yield text[start : start + length]
    if end < len(word):
        yield word[end:]


def affinity(one: str, other: str) -> float:
    """How nearly two terms are the same word: 1 for equal ones, 0 for unrelated ones."""
    if one == other:
        return 1.0
    if one[:3] != other[:3] and not (one.endswith(other) or other.endswith(one)):
        return 0.0  # nearly every pair, so it is told first
    short, long = (one, other) if len(one) < len(other) else (other, one)
    if len(short) < 3 or short[0].isdigit() or unspaced(short):
        return 0.0
    shared = 0
    for left, right in zip(short, long, strict=False):
        if left != right:
            break
        shared += 1
    if shared == len(short):
        added = len(long) - shared
        if added <= len(short) - 2:
            return 0.9 if added <= 3 else 0.7
        return 0.6 if len(short) >= 5 else 0.0
    if shared >= 4 and len(short) - shared <= 3 and len(long) - shared <= 3 and shared >= 0.6 * len(long):
        return 0.8
    if len(short) >= 5 and long.endswith(short):
        return 0.6
    return 0.0
