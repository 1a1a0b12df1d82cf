"""A passage as statements that can be quoted: sentences, list items and rows of tables, each where it stands.

Boundaries are told without a model: by the punctuation of many scripts, and by what follows it. Where it is doubtful
(initials, abbreviations, German ordinals) a statement stays whole: too long reads better than cut in two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MARKER = re.compile(r"[ \t]*(?:(?:[-*+•‣▪–—>]|#{1,6}|\d{1,3}[.)]|[a-z]\)|\[[ xX]\])[ \t]+)+")
HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+\S")
RULE = re.compile(r"[\s|:*_=-]*")
ROW = re.compile(r"[^:;|]{1,60}: [^;]*(?:; [^:;]{1,60}: [^;]*)+|[^|]*\|.*")
END = re.compile(
    r"[.!?…]+[)\]\"'»“”’]*(?=\s)|[。！？｡]+[」』”’）〉》]*|[।॥؟۔።]+(?=\s)|(?<=[\u0e01-\u0e5b])(?=\s+[\u0e01-\u0e5b])"
)
FINISHED = re.compile(r"(?:[.!?…。！？｡।॥؟۔።:]|[\u0e01-\u0e5b])[)\]\"'»“”’」』）〉》*_]*$")
LAST_WORD = re.compile(r"[\w.]*$")
ABBREVIATIONS = re.compile(
    r"dr|mrs?|ms|mme|mlle|prof|st|approx|ca|cf|vs|e\.?g|i\.?e|inc|ltd|dept|est|tel|bzw|evtl|ggf|inkl|zzgl|vgl|sog|mio|mrd|"
    r"env|sra?|srta|uds?|т\.[едп]|г|ул|[^\W\d_]|(?![ap]\.m)(?:[^\W\d_]\.)+[^\W\d_]"
)
BEFORE_NUMBERS = re.compile(
    r"nos?|nr|pp?|vol|fig|sec|ch|art|abs|str|max|min|núm|pág|n|jan|feb|mar|apr|aug|sept?|o[ck]t|nov|de[cz]"
)
ORDINAL_LANGUAGES = frozenset(
    {"de", "da", "nb", "no", "fi", "cs", "sk", "hu", "pl", "tr", "hr", "sl", "et", "is", "lv"}
)
PHRASES = 60  # characters of Thai, which ends phrases and sentences alike with a space, that are quoted at least
WRAPPED = 45  # characters: a line at least this long that does not end a sentence was wrapped, not ended


@dataclass(frozen=True, slots=True)
class Statement:
    """`passage[start:end]`; `paragraph` counts from 0, `heading` is the line above that reads as one, if any.

    `finished` tells a whole sentence from a fragment, which needs its heading to be understood. `columns` is the first
    row of the table that a row stands in, where that names the columns.
    """

    start: int
    end: int
    paragraph: int
    heading: str
    finished: bool
    columns: str = ""


def statements(text: str, language: str | None = None) -> list[Statement]:
    """The statements of a passage in order; headings and the columns' names of Markdown tables are not among them."""
    found: list[Statement] = []
    heading = ""
    lines = list(_paragraphs(text))
    tables = _tables(text, lines)
    for paragraph, (start, end) in enumerate(lines):
        if HEADING.match(text, start, end):
            heading = text[_after_marker(text, start, end) : end].strip(" #*_")
            continue
        if _names_what_follows(text, lines, paragraph):
            heading = text[start:end].strip(" :*_")
            continue
        columns = tables.get(paragraph, "")
        if RULE.fullmatch(text, start, end) or columns == text[start:end]:
            continue
        whole = ROW.fullmatch(text, start, end) is not None
        spans = [(_after_marker(text, start, end), end)] if whole else _sentences(text, start, end, language)
        for begin, stop in spans:
            piece = text[begin:stop]
            if any(character.isalnum() for character in piece):
                found.append(Statement(begin, stop, paragraph, heading, FINISHED.search(piece) is not None, columns))
    return found


def cells(row: str) -> list[str]:
    """The cells of a row of a table, without the bars between and around them."""
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def named_cells(row: str, columns: str) -> str:
    """A row of a table with each cell named by its column; as it is where the cells are not as many as the names."""
    names, said = cells(columns), cells(row)
    if len(names) != len(said):
        return row
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(names, said, strict=True) if cell)


def readable(quoted: str) -> str:
    """A quotation as it reads best: the same words, without line breaks and the marks of Markdown and of tables."""
    text = re.sub(r"!?\[([^\]]+)\]\([^)\s]*\)", r"\1", quoted)
    text = re.sub(r"(\*\*|__|`+)(?=\S)(.+?)(?<=\S)\1", r"\2", text, flags=re.DOTALL)
    text = re.sub(r"(?<!\w)([*_])(?=\S)([^*_]+?)(?<=\S)\1(?!\w)", r"\2", text)
    text = re.sub(r"\s*\|\s*", " – ", text.strip().strip("|"))
    return " ".join(text.split())


def _tables(text: str, lines: Sequence[tuple[int, int]]) -> dict[int, str]:
    """The names of the columns for each row of a table that has them, and for the row that they are.

    The first row names the columns when a rule follows it, or when none of its cells has a digit and two rows or more
    have as many cells.
    """
    named: dict[int, str] = {}
    begun = 0
    while begun < len(lines):
        end = begun
        while end < len(lines) and "|" in text[slice(*lines[end])]:
            end += 1
        rows = [text[start:stop] for start, stop in lines[begun:end]]
        ruled = len(rows) > 1 and RULE.fullmatch(rows[1]) is not None
        alike = {len(cells(row)) for row in rows if not RULE.fullmatch(row)}
        if ruled or (len(rows) > 2 and len(alike) == 1 and not any(map(str.isdigit, rows[0]))):
            named |= dict.fromkeys(range(begun, end), rows[0])
        begun = max(end, begun + 1)
    return named


def _names_what_follows(text: str, lines: Sequence[tuple[int, int]], place: int) -> bool:
    """Whether a short line with no end stands right above a sentence: a heading that lost its mark."""
    start, end = lines[place]
    if end - start >= WRAPPED or place + 1 == len(lines) or FINISHED.search(text, start, end):
        return False
    above, below = text[:start], text[end : lines[place + 1][0]]
    alone = not above.strip() or above.endswith("\n\n")
    following = text[slice(*lines[place + 1])]
    plain = not MARKER.match(text, start, end) and not ROW.fullmatch(text, start, end)
    return alone and plain and "\n\n" not in below and not MARKER.match(following) and bool(FINISHED.search(following))


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Spans that no sentence crosses: lines, joined where a sentence was only wrapped."""
    begun: int | None = None
    end = 0
    stop = -1
    for line in text.split("\n"):
        start, stop = stop + 1, stop + 1 + len(line)
        if begun is not None and (not line.strip() or _begins_anew(text[begun:end], line)):
            yield begun, end
            begun = None
        if line.strip():
            begun = start if begun is None else begun
            end = stop
    if begun is not None:
        yield begun, end


def _begins_anew(before: str, line: str) -> bool:
    last = before.rsplit("\n", 1)[-1].rstrip()
    if MARKER.match(line) or ROW.fullmatch(line) or HEADING.match(last) or ROW.fullmatch(last):
        return True
    if FINISHED.search(last):
        return True
    return len(last) < WRAPPED and not line.lstrip()[:1].islower()


def _after_marker(text: str, start: int, end: int) -> int:
    marker = MARKER.match(text, start, end)
    begin = start if marker is None else marker.end()
    while begin < end and text[begin] in " \t|":
        begin += 1
    return begin


def _sentences(text: str, start: int, end: int, language: str | None) -> list[tuple[int, int]]:
    begin = _after_marker(text, start, end)
    spans: list[tuple[int, int]] = []
    for mark in END.finditer(text, begin, end):
        if _ends_here(text, begin, mark, language):
            spans.append((begin, mark.end()))
            begin = mark.end()
            while begin < end and text[begin].isspace():
                begin += 1
    if begin < end:
        spans.append((begin, begin + len(text[begin:end].rstrip())))
    return spans


def _ends_here(text: str, begin: int, mark: re.Match[str], language: str | None) -> bool:
    if not mark.group():
        return mark.start() - begin >= PHRASES
    following = text[mark.end() : mark.end() + 80].lstrip("\"'«»„“”‘’([ \t\n")
    if following[:1].islower():
        return False
    if mark.group() != ".":
        return True
    word = LAST_WORD.search(text, begin, mark.start())
    last = word.group().casefold() if word is not None else ""
    if ABBREVIATIONS.fullmatch(last) or (following[:1].isdigit() and BEFORE_NUMBERS.fullmatch(last)):
        return False
    return not (last.isdigit() and len(last) <= 2 and language in ORDINAL_LANGUAGES)
