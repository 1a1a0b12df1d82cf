"""Which language a text is in: by its script, by letters of its own, by its most frequent words. None when unsure.

A wrong language stems wrongly, and no language merely does not stem; so what is not clear is left open.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from ingest.function_words import DEVANAGARI, LATIN

_SAMPLE = 20_000  # characters
_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0963])+(?:['’][^\W\d_]+)?")  # \w leaves out Devanagari's vowel signs

# Unicode names begin with the script: "HIRAGANA LETTER A".
_SCRIPTS = {
    "GREEK": "el", "HEBREW": "he", "THAI": "th", "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh",
    "ARMENIAN": "hy", "GEORGIAN": "ka", "TAMIL": "ta", "BENGALI": "bn", "TELUGU": "te", "KHMER": "km", "LAO": "lo",
}  # fmt: skip

# Letters that only one language of a script uses often.
_CYRILLIC = {"ru": "ыэё", "uk": "іїєґ", "be": "ўі", "sr": "јљњћђџ", "bg": "ъ"}
_ARABIC = {"fa": "پچژگ", "ur": "ٹڈےں"}
_LETTERS = {
    "de": "ß", "es": "ñ¿¡", "pt": "ãõ", "sv": "å", "da": "æø", "no": "æø", "fi": "ä", "ro": "șțăş", "hu": "őű",
    "tr": "ığş", "pl": "łąęśż", "cs": "řěůč", "fr": "œèêç", "it": "ìòù",
}  # fmt: skip

_LEAST_WORDS = 4
_LEAST_SHARE = 0.12  # of all words; running text in a known language has 0.25 and more, other languages below 0.1
_MARGIN = 1.15
_JAPANESE = 0.05  # of kana among ideographs and kana; Japanese prose has half


def detect_language(text: str) -> str | None:
    """The ISO 639-1 code, or None. Looks at the first 20,000 characters."""
    sample = unicodedata.normalize("NFC", text[:_SAMPLE])
    scripts: Counter[str] = Counter()
    for letter, count in Counter(sample.lower()).items():
        if letter.isalpha():
            scripts[_script(letter)] += count
    if not scripts:
        return None
    # An ideograph says what Latin takes three letters for, and foreign names stay in Latin letters.
    weights = {script: count * (3 if script in {"CJK", "HANGUL"} else 1) for script, count in scripts.items()}
    script = max(weights, key=lambda name: weights[name])
    if script in {"CJK", "HIRAGANA", "KATAKANA"}:
        kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
        return "ja" if kana > _JAPANESE * (kana + scripts["CJK"]) else "zh"
    if script == "LATIN":
        return _by_words(sample, LATIN)
    if script == "DEVANAGARI":
        return _by_words(sample, DEVANAGARI)
    if script == "CYRILLIC":
        return _by_letters(sample.lower(), _CYRILLIC, scripts[script], otherwise=None)
    if script == "ARABIC":
        return _by_letters(sample.lower(), _ARABIC, scripts[script], otherwise="ar")
    return _SCRIPTS.get(script)


def _script(letter: str) -> str:
    return "LATIN" if letter.isascii() else unicodedata.name(letter, "").partition(" ")[0]


def _by_letters(sample: str, letters: Mapping[str, str], size: int, otherwise: str | None) -> str | None:
    counts = {language: sum(map(sample.count, own)) for language, own in letters.items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] >= max(0.005 * size, 1) else otherwise


def _by_words(sample: str, profiles: Mapping[str, str]) -> str | None:
    """The best profile, if enough of the words are in it and the next best is clearly behind.

    A word counts the more the fewer languages have it, and letters of a language's own count as half a word.
    """
    words = _WORD.findall(sample)
    words = [word for word in words if not word[0].isupper()] or [word.lower() for word in words]  # names mislead
    if len(words) < _LEAST_WORDS:
        return None
    sets = {language: frozenset(listed.split()) for language, listed in profiles.items()}
    shared = Counter(word for listed in sets.values() for word in listed)
    letters = Counter(sample.lower())
    counts = Counter(words)
    scores: dict[str, float] = {}
    shares: dict[str, float] = {}
    for language, listed in sets.items():
        own = sum(letters[letter] for letter in _LETTERS.get(language, ""))
        found = {word: counts[word] for word in listed if word in counts}
        scores[language] = sum(count / shared[word] for word, count in found.items()) + own / 2
        shares[language] = (sum(found.values()) + own / 2) / len(words)
    best, second = sorted(scores, key=lambda language: scores[language], reverse=True)[:2]
    sure = shares[best] >= _LEAST_SHARE and scores[best] >= 2 and scores[best] > _MARGIN * scores[second]
    return best if sure else None
