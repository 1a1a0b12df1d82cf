"""From bytes to text: a byte-order mark first, then UTF-8, then what was declared, then a guess."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from pipeline.errors import Unparsable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# charset-normalizer left to itself took Shift-JIS for Korean, KOI8-R for Japanese and "naïve" for Urdu.
_CANDIDATES = [
    "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256",
    "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr",
]  # fmt: skip
_SAMPLE = 64 * 1024
_FEW = 0.06  # German and French have 2 to 5 % of letters outside ASCII, Czech and Turkish 9 to 15 %
_CONTROLS = re.compile("[\x00-\x08\x0e-\x19\x1c-\x1f]")
_MAY_BE_CONTROL = 0.01


def decode(content: bytes, name: str, declared: str | None = None) -> str:
    """The text of a file.

    Raises Unparsable for what is no text at all. A guessed charset may replace single characters, never fail.
    """
    for mark, charset in _MARKS:
        if content.startswith(mark):
            return content.decode(charset, errors="replace")
    unmarked = _without_mark(content)
    if unmarked is None:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = content.decode(_known(declared) or _guess(content), errors="replace")
    else:
        text = content.decode(unmarked, errors="replace")
    head = text[:_SAMPLE]
    if len(_CONTROLS.findall(head)) > _MAY_BE_CONTROL * len(head):
        raise Unparsable(
            f"'{name}' is not text, nor a PDF or DOCX file: it holds binary data. "
            "Send Markdown, text, HTML, PDF, DOCX, CSV or JSONL."
        )
    return text


def _without_mark(content: bytes) -> str | None:
    """UTF-16 saved without a mark shows by the zeros of its many ASCII characters, all on one side."""
    head = content[:4096]
    half = len(head) // 2
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if half and odd > 0.3 * half and even < 0.05 * half:
        return "utf-16-le"
    if half and even > 0.3 * half and odd < 0.05 * half:
        return "utf-16-be"
    return None


def _known(declared: str | None) -> str | None:
    try:
        return codecs.lookup(declared).name if declared else None
    except LookupError:
        return None


def _guess(content: bytes) -> str:
    sample = content[:_SAMPLE]
    best = from_bytes(sample, cp_isolation=_CANDIDATES).best()
    high = sum(byte >= 0x80 for byte in sample)
    if best is None or (best.encoding.startswith("cp125") and high < _FEW * len(sample)):
        return "cp1252"
    return best.encoding
