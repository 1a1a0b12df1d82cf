"""Text to terms for peers that leave it to their users."""

from __future__ import annotations

import re

import Stemmer

WORD = re.compile(r"(?u)\b\w\w+\b")
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
_stem = Stemmer.Stemmer("english").stemWords


def stemmed(text: str) -> list[str]:
    """Stems of the lower-case words of two characters or more that are no stop words."""
    return _stem([word for word in WORD.findall(text.lower()) if word not in STOP_WORDS])
