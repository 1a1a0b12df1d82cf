"""From bytes to text: a byte-order mark first, then UTF-8, then what was declared, then a guess."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from pipeline.errors import Unparsable
from pipeline.passages import Upload

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

# What labels mean on the web (the Encoding Standard of the WHATWG), where Python takes them by the letter.
_MEANT = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip
_SEVEN_BITS = frozenset({"iso2022_jp", "iso2022_kr", "hz", "utf-7"})  # any such text is valid UTF-8, and means another
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]{2,40})", re.IGNORECASE)

_FREQUENT = frozenset((ord(sign) >> 8, ord(sign) & 0xFF) for sign in " \n。、，")

_SAMPLE = 64 * 1024
_FEW = 0.06  # German and French have 2 to 5 % of letters outside ASCII, Czech and Turkish 9 to 15 %
_DAMAGED = 0.05  # of the letters outside ASCII
_CONTROLS = re.compile("[\x00-\x08\x0e-\x19\x1c-\x1f]")
_MAY_BE_CONTROL = 0.01
_FEW_CONTROLS = 4


def decode_upload(upload: Upload, inside: str | None = None) -> str:
    """The text of an upload; `inside` is the charset that the file itself declares, believed after the sender's.

    Raises Unparsable for what is no text at all.
    """
    sent = _CHARSET.search(upload.media_type or "")
    return decode(upload.content, upload.name, sent.group(1) if sent else None, inside)


def decode(content: bytes, name: str, *declared: str | None) -> str:
    """The text of a file. The first declared charset that exists is believed where the bytes do not tell.

    Raises Unparsable for what is no text at all. A guessed charset may replace single characters, never fail.
    """
    for mark, charset in _MARKS:
        if content.startswith(mark):
            return content.decode(charset, errors="replace")
    said = next((known for label in declared if (known := _known(label))), None)
    if said in _SEVEN_BITS:
        return content.decode(said, errors="replace")
    text = _as_utf8(content)
    if text is None or _is_binary(text):
        wide = _as_wide(content)
        if wide is not None:
            return wide
    if text is None:
        text = content.decode(said or _guess(content), errors="replace")
    if _is_binary(text):
        raise Unparsable(
            f"'{name}' is not text: it holds binary data, of a kind that is not known here. "
            "Send Markdown, text, HTML, PDF, DOCX, PPTX, XLSX, CSV or JSONL."
        )
    return text


def _is_binary(text: str) -> bool:
    """Whether it holds more control characters than strayed into it: a hundredth, or four in a short text."""
    head = text[:_SAMPLE]
    return len(_CONTROLS.findall(head)) > max(_MAY_BE_CONTROL * len(head), min(_FEW_CONTROLS, 0.1 * len(head)))


def _as_utf8(content: bytes) -> str | None:
    """Also where a little of it is damaged or the last character was cut; None where it is something else."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("utf-8", errors="replace")
    foreign = sum(not character.isascii() for character in text[:_SAMPLE]) or text.count("\ufffd")
    return text if 1 <= text.count("\ufffd") <= max(_DAMAGED * foreign, 1) < foreign else None


def _as_wide(content: bytes) -> str | None:
    """UTF-32 or UTF-16 saved without a mark; None where nothing speaks for it, or where it is not text then either."""
    head = content[:_SAMPLE]
    if len(head) >= 4 and not any(head[3::4]) and max(head[2::4]) <= 0x10:
        charset = "utf-32-le"
    elif len(head) >= 4 and not any(head[0::4]) and max(head[1::4]) <= 0x10:
        charset = "utf-32-be"
    elif (little := _sixteen(head[1::2], head[0::2])) > (big := _sixteen(head[0::2], head[1::2])):
        charset = "utf-16-le"
    elif big > little:
        charset = "utf-16-be"
    else:
        return None
    try:
        text = content[: len(content) - len(content) % (4 if "32" in charset else 2)].decode(charset)
    except UnicodeDecodeError:
        return None
    return None if _CONTROLS.search(text[:_SAMPLE]) else text


def _sixteen(high: bytes, low: bytes) -> float:
    """What speaks for these being the halves of UTF-16: Latin letters leave zeros, and blanks and stops are frequent.

    A zero may stray into a text of single bytes, too, but there both halves are letters.
    """
    if _printable(high) > 0.5 * len(high) and _printable(low) > 0.9 * len(low):
        return 0.0
    spaces = sum(pair in _FREQUENT for pair in zip(high, low, strict=False))
    share = (high.count(0) + spaces) / max(len(high), 1)
    return share if share >= 0.01 else 0.0


def _printable(part: bytes) -> int:
    return sum(0x20 <= byte < 0x7F for byte in part)


def _known(label: str | None) -> str | None:
    try:
        name = codecs.lookup(label).name if label else None
    except LookupError:
        return None
    return _MEANT.get(name, name) if name else None


def _guess(content: bytes) -> str:
    sample = content[:_SAMPLE]
    best = from_bytes(sample, cp_isolation=_CANDIDATES).best()
    high = sum(byte >= 0x80 for byte in sample)
    if best is None or (best.encoding.startswith("cp125") and high < _FEW * len(sample)):
        return "cp1252"
    return best.encoding
