"""Text as it is stored and searched: one form for each character, nothing invisible, lines kept."""

from __future__ import annotations

import re
import unicodedata

# NFKC makes "10²" into "102" and "1½" into "11⁄2": other facts. It also gives Chinese and Japanese prose the narrow
# punctuation of Latin, for which readers do not thank. Such characters are kept; matching folds them on both sides.
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>")
_KEPT_PUNCTUATION = "<wide>"

_LINE_ENDS = re.compile(r"\r\n|[\r\v\x85\u2028]")
_PARAGRAPH_ENDS = re.compile("[\f\u2029]")

# Controls, lone surrogates, soft hyphens, direction marks, fillers, variation selectors, and the tag characters that
# can carry text nobody sees. U+200C and U+200D are letters' business in Arabic and Indic scripts; see _JOINERS.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_JOINERS = re.compile("(?<![\u0600-\u08ff\u0900-\u0dff\u0e80-\u109f\u1780-\u17ff])[\u200c\u200d]+")

_BLANKS = re.compile(r"[^\S\n]+")
_INDENT = re.compile(r"^[^\S\n]*", re.MULTILINE)
_DEEPEST_INDENT = 16
_MANY_LINE_ENDS = re.compile(r"\n{3,}")

_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-\u2010\xad][^\S\n]*\n[^\S\n]*(?=[^\W\d_])")
_BULLET = re.compile(r"\s*(?:[-*+•◦▪‣–—]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)])\s")
_LONG_LINE = 0.7  # of the long lines of a paragraph
_NARROWEST = 30  # columns that anybody wraps at; an ideograph takes two


def clean(text: str) -> str:
    """NFKC but for the forms named above; invisible characters removed; blanks within a line collapsed.

    Lines stay, with their indentation (at most 16 columns), since it is meaning in code and lists; more than one blank
    line becomes one. Cleaning twice changes nothing more.
    """
    text = _visible(text)
    if not text.isascii():
        text = _visible(_normalised(text))  # NFKC may compose some of them anew
    lines = (_tidy(line) for line in text.split("\n"))
    return _MANY_LINE_ENDS.sub("\n\n", "\n".join(lines)).strip("\n").rstrip()


def clean_line(text: str) -> str:
    """The same for a title or heading: one line."""
    return " ".join(clean(text).split())


def even_lines(text: str) -> str:
    """Every kind of line end as a newline, every kind of paragraph end as two."""
    return _PARAGRAPH_ENDS.sub("\n\n", _LINE_ENDS.sub("\n", text))


def joined_hyphens(text: str) -> str:
    """Joins words that were divided at a line's end, as typesetting does.

    A compound that happened to break at its own hyphen loses it when the next line goes on in lower case; kept hyphens
    would break every divided word instead, and those are many more.
    """
    return _HYPHENATED.sub(lambda match: "" if text[match.end()].islower() else "-", text)


def unwrapped(paragraph: str) -> str:
    """Joins lines that were broken only because they were full.

    A newline ends a sentence by Unicode's rules (UAX 29, SB4), so a wrapped line would be cut mid-sentence. A line is
    taken for wrapped when it is nearly as long as the long ones, ends in a lower-case letter, a comma or an ideograph,
    and what follows is neither indented nor a list item: rows of a table, addresses and verse stay as they are.
    """
    lines = paragraph.split("\n")
    lengths = sorted(_width(line.rstrip()) for line in lines if line.strip())
    if len(lengths) < 2:
        return paragraph
    full = max(_LONG_LINE * lengths[int(0.9 * (len(lengths) - 1))], _NARROWEST)
    whole = [lines[0]]
    previous = lines[0].rstrip()
    for line in lines[1:]:
        if _goes_on(previous, full) and line[:1].strip() and not _BULLET.match(line):
            gap = "" if _is_ideograph(previous[-1]) and _is_ideograph(line[0]) else " "
            whole.append(gap + line.rstrip())
        else:
            whole.append("\n" + line.rstrip())
        previous = line.rstrip()
    return "".join(whole)


def _goes_on(line: str, full: float) -> bool:
    if not line or _width(line) < full:
        return False
    last = line[-1]
    return last in ",、،" or (last.isalpha() and not last.isupper())


def _width(line: str) -> int:
    return len(line) + (0 if line.isascii() else sum(map(_is_ideograph, line)))


def _is_ideograph(character: str) -> bool:
    return "\u2e80" <= character <= "\u9fff" or character >= "\U00020000"


def _visible(text: str) -> str:
    text = _INVISIBLE.sub("", even_lines(text))
    return text if text.isascii() else _JOINERS.sub("", text)


def _normalised(text: str) -> str:
    if unicodedata.is_normalized("NFKC", text):
        return text
    kept = set(filter(_is_kept, set(text)))
    if not kept:
        return unicodedata.normalize("NFKC", text)
    pieces = re.split(f"([{re.escape(''.join(sorted(kept)))}]+)", text)
    return "".join(piece if index % 2 else unicodedata.normalize("NFKC", piece) for index, piece in enumerate(pieces))


def _is_kept(character: str) -> bool:
    form = unicodedata.decomposition(character)
    if form.startswith(_KEPT_PUNCTUATION):
        return unicodedata.category(character).startswith("P")
    return form.startswith(_KEPT_FORMS)


def _tidy(line: str) -> str:
    indent = _INDENT.match(line)
    blanks = indent.group() if indent else ""
    rest = _BLANKS.sub(" ", line[len(blanks) :]).rstrip()
    width = len(blanks.expandtabs(4))
    return " " * min(width, _DEEPEST_INDENT) + rest if rest else ""
