"""What a cell of a spreadsheet shows: numbers by their format, dates in ISO's form.

Not a whole implementation of ECMA-376 part 1, 18.8.31: digits, thousands, percent and the words beside the number are
kept. Dates are not shown as the format has them: 05/06/2024 says different things to readers of different countries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 14: "yyyy-mm-dd", 15: "yyyy-mm-dd",
    16: "yyyy-mm-dd", 17: "yyyy-mm", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss",
}  # fmt: skip
_NOT_SHOWN = re.compile(r"\"[^\"]*\"|\\.|_.|\*.|\[[^\]]*\]")
_LITERAL = re.compile(r"\"([^\"]*)\"|\\(.)|\[\$([^\]-]*)[^\]]*\]|_.|\*.|\[[^\]]*\]")
_DIGITS = re.compile(r"[0#?][0#?,]*(?:\.[0#?]*)?")
_DATE_LETTERS = re.compile(r"[ymdhs]", re.IGNORECASE)
_HOURS = re.compile(r"\[h+\]|\[m+\]|\[s+\]", re.IGNORECASE)
_LATEST = 2_958_465  # 9999-12-31
_LONGEST = 300  # characters of a number format; real ones have less than 100
_MOST_DIGITS = 15
_MOST_PLACES = 10


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How one style of cell shows numbers. `is_date` and `is_time` tell which parts of a moment it has."""

    code: str = ""
    is_date: bool = False
    is_time: bool = False
    is_duration: bool = False

    @classmethod
    def of(cls, number: int, code: str | None = None) -> NumberFormat:
        """A built-in format by its number, or one of the workbook's own by its code."""
        positive = (code or _BUILT_IN.get(number, "")).split(";", 1)[0][:_LONGEST]
        if positive.lower() == "general":
            return cls()
        letters = "".join(_DATE_LETTERS.findall(_NOT_SHOWN.sub("", positive))).lower()
        is_time = "h" in letters or "s" in letters
        is_date = "y" in letters or "d" in letters or ("m" in letters and not is_time)
        return cls(positive, is_date, is_time, bool(_HOURS.search(positive)))

    def show(self, value: str, *, since_1904: bool = False) -> str:
        """The text that the cell shows for a stored number; what is no number is shown as it is."""
        if not self.code and value.isdecimal() and len(value) <= _MOST_DIGITS:
            return value
        try:
            number = Decimal(value)
        except InvalidOperation:
            return value
        if not number.is_finite():
            return value
        if abs(number.adjusted()) > _MOST_DIGITS:
            return _general(number)
        if self.is_duration:
            return _duration(number)
        if self.is_date or self.is_time:
            return self._moment(number, since_1904=since_1904) or _general(number)
        return self._number(number) if self.code else _general(number)

    def _moment(self, number: Decimal, *, since_1904: bool) -> str:
        """Days since 1899-12-30 or 1904-01-01; Excel takes 1900 for a leap year, so that 60 is no day."""
        days = number + 1462 if since_1904 else number
        if not 0 <= days < _LATEST:
            return ""
        begin = datetime(1899, 12, 31 if days < 60 else 30)  # noqa: DTZ001  a cell knows no time zone
        moment = begin + timedelta(seconds=int((days * 86_400).to_integral_value(ROUND_HALF_UP)))
        shown = "%Y-%m-%d" if self.is_date else ""
        if self.is_time:
            shown += " %H:%M:%S" if moment.second else " %H:%M"
        return moment.strftime(shown.strip())

    def _number(self, number: Decimal) -> str:
        bare = _LITERAL.sub("\x00", self.code)
        digits = _DIGITS.search(bare)
        if digits is None or "E" in bare or "/" in bare:
            return _general(number)
        places = min(len(digits.group().partition(".")[2]), _MOST_PLACES)
        shown = number * 100 if "%" in bare else number
        rounded = shown.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
        text = f"{rounded:,f}" if "," in digits.group().strip(",") else f"{rounded:f}"
        before, after = _words(self.code, digits.group())
        return f"{before}{text}{'%' if '%' in bare else ''}{after}".strip()


def _words(code: str, digits: str) -> tuple[str, str]:
    """The words that stand before and behind the number: a currency, a unit."""
    before, _, after = code.partition(digits)
    return _literal(before), _literal(after)


def _literal(part: str) -> str:
    shown = _LITERAL.sub(lambda match: "".join(filter(None, match.groups())), part)
    return "".join(character for character in shown if character not in "%#0?@,.")


def _duration(days: Decimal) -> str:
    seconds = int((abs(days) * 86_400).to_integral_value(ROUND_HALF_UP))
    return f"{'-' if days < 0 else ''}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _general(number: Decimal) -> str:
    """Fifteen digits are what a spreadsheet knows; the rest is how it stores 0.3."""
    text = f"{float(number):.15g}"
    return text if "e" not in text else str(float(text))
