"""Text to terms: Unicode normalisation, words, stop words and stems.

1. NFKC and case folding, so that full-width, ligature and capital forms are one.
2. Words are runs of letters, digits and their marks. Apostrophes split, and a single letter beside one is dropped:
   `don't` is `don`, `l'homme` is `homme`, `john's` is `john`.
3. Scripts written without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) become overlapping pairs of characters,
   a character with its marks counting as one; a run of one character is a term of its own, as in Lucene's CJKAnalyzer.
4. A document's words lose its language's stop words and get its language's stem (Snowball). Where the language is not
   known, or has no stemmer, words stay as they are.

A query says no language, and three words are too few to guess one. So it is analysed once for each language that the
collection holds, and the terms are united: a term that several languages yield counts once. Function words are what
goes wrong then (`the` is rare, hence heavy, in German documents), so the languages in which the most words of the query
are stop words are taken as its own, and their stop words are dropped from all of its analyses.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import Stemmer  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # carries no types

from retrieve.stop_words import STOP_WORDS

stemmers: Any = Stemmer
LONGEST = 64  # characters of a term that are kept; longer ones are base64 and the like
MOST_LANGUAGES = 16  # analyses of one query

STEMMERS: Mapping[str, str] = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana and iteration marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"  # Han
    "\u1100-\u11ff\uac00-\ud7ff"  # Hangul
)
PLAIN = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
FINGERPRINT = "words-2"  # change it with anything here that changes a term; a generation names it


def words(text: str) -> list[str]:
    """The words of a text in order, folded, before stop words and stems (steps 1 to 3)."""
    if text.isascii():
        found = PLAIN.findall(text.lower())
        return _without_apostrophes(found) if "'" in text else found
    folded = _folded(text)
    patterns = _patterns()
    found = _without_apostrophes(patterns.word.findall(folded))
    if not patterns.unspaced.search(folded):
        return found
    return [term for word in found for term in _pairs(word, patterns)]


class Analyzer:
    """Step 4: one language's stop words and stems. `language` is an ISO 639-1 code or None. Not thread-safe."""

    def __init__(self, language: str | None) -> None:
        self.language = language
        self.stop_words = STOP_WORDS.get(language or "", frozenset[str]())
        name = STEMMERS.get(language or "")
        self._stemmer: Any = stemmers.Stemmer(name) if name else None

    def term(self, word: str) -> str | None:
        """The term that a word is found under; None for a stop word."""
        if word in self.stop_words:
            return None
        return self.stem(word)

    def stem(self, word: str) -> str:
        """The stem, of stop words too; the word itself where there is no stemmer or nothing would be left."""
        stem: str = self._stemmer.stemWord(word) if self._stemmer else word
        return (stem or word)[:LONGEST]

    def terms(self, text: str) -> list[str]:
        """A whole text's terms in order."""
        return [term for word in words(text) if (term := self.term(word)) is not None]


class QueryAnalyzer:
    """Analyses queries for a collection in several languages; safe to use from several threads.

    `languages` are those of the collection's passages, most frequent first (None: unknown); beyond 16 they are left
    out, which costs the query its stems in them and nothing else.
    """

    def __init__(self, languages: Iterable[str | None]) -> None:
        chosen = list(dict.fromkeys(languages))[:MOST_LANGUAGES] or [None]
        self._analyzers = [Analyzer(language) for language in chosen]
        self._turn = threading.Lock()  # a Snowball stemmer has state

    def terms(self, text: str) -> dict[str, float]:
        """Each term with how often the query says it, over the languages at most; empty when nothing is left."""
        said = Counter(words(text))
        with self._turn:
            dropped = self._own_stop_words(said)
            united: dict[str, float] = {}
            for analyzer in self._analyzers:
                counts: dict[str, float] = {}
                for word, count in said.items():
                    if word not in dropped and (term := analyzer.term(word)) is not None:
                        counts[term] = counts.get(term, 0.0) + count
                for term, weight in counts.items():
                    united[term] = max(weight, united.get(term, 0.0))
        return united

    def _own_stop_words(self, said: Mapping[str, int]) -> set[str]:
        """The stop words of the languages that the query is most likely in; none where it has no stop words."""
        hits = [said.keys() & analyzer.stop_words for analyzer in self._analyzers]
        most = max(map(len, hits))
        own: set[str] = set()
        return own.union(*(found for found in hits if len(found) == most)) if most else own


class Patterns:
    """Compiled on first use: Python's `re` has no class for marks, so their ranges are collected."""

    def __init__(self) -> None:
        marks = _marks()
        self.word = re.compile(rf"[^\W_](?:[^\W_]|[{marks}])*(?:['’][^\W_](?:[^\W_]|[{marks}])*)*")
        self.unspaced = re.compile(rf"[{UNSPACED}]")
        self.run = re.compile(rf"[{UNSPACED}][{UNSPACED}{marks}]*|[^{UNSPACED}]+")
        self.cluster = re.compile(rf"[^{marks}][{marks}]*|[{marks}]+")


@cache
def _patterns() -> Patterns:
    return Patterns()


def _marks() -> str:
    """A character class's inside with every combining mark up to U+1E94A, as ranges."""
    points = [point for point in range(0x300, 0x1E94B) if unicodedata.category(chr(point))[0] == "M"]
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def _folded(text: str) -> str:
    """NFKC, case folding, and again, since folding can undo the composition; the dot of a folded `İ` goes."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return folded.replace("i\u0307", "i")


def _without_apostrophes(found: list[str]) -> list[str]:
    kept: list[str] = []
    for word in found:
        if "'" in word or "’" in word:
            kept += [part for part in word.replace("’", "'").split("'") if len(part) > 1]
        else:
            kept.append(word)
    return kept


def _pairs(word: str, patterns: Patterns) -> list[str]:
    """A word cut at changes between spaced and unspaced scripts, the unspaced runs in overlapping pairs."""
    terms: list[str] = []
    for run in patterns.run.findall(word):
        if not patterns.unspaced.match(run):
            terms.append(run)
            continue
        clusters = patterns.cluster.findall(run)
        terms += [a + b for a, b in pairwise(clusters)] or clusters
    return terms
