"""Nearest among allowed rows, by codes: how many of them are looked at, and when it is better to compare all exactly.

A filter costs codes more than it costs vectors: of the nearest by code only those count that are allowed, while a
vector that is not allowed is never read. So lists are read until they hold as many allowed rows as an unfiltered search
reads rows; and where so many codes would take longer than all allowed vectors, the vectors are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class CodedOptions:
    """Up to `exact_up_to` allowed rows are compared exactly, and more of them where there is but one for each
    `codes_a_vector` codes that would be read.

    `codes_a_vector`: among a million of 384 dimensions a code takes some 20 ns, a vector at a random place 1,000. From
    `mostly` on, as a share of all rows, what is not allowed is dropped afterwards; below it a selector is cheaper. A
    search that brings less than `enough` of the rows it was asked for has been where few are allowed, and goes wider,
    up to `widest` times, in lists and in rows compared: what is far from a query its codes tell less apart.
    """

    exact_up_to: int = 5_000
    codes_a_vector: int = 45
    mostly: float = 0.5
    enough: float = 0.9
    widest: int = 16

    def compares_all(self, allowed: int, read: float) -> bool:
        """Whether to compare all `allowed` rows, rather than to read so many codes."""
        return allowed <= max(self.exact_up_to, read / self.codes_a_vector)

    def next(self, wider: int, wanted: int, found: int) -> int:
        """How many times as wide the next search is, when this one brought so few; beyond `widest` there is none."""
        if wider == self.widest:
            return wider + 1
        return min(wider * max(2, ceil(wanted / max(found, 1))), self.widest)


def depth(k: int, allowed: int, rows: int) -> int:
    """How deep a search of all rows goes until it has met `k` of the allowed ones, if these lie anywhere."""
    return min(ceil(k * rows / allowed), rows)
