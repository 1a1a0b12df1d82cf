"""What is asked: real queries, the popular ones often and most of them rarely, as people ask."""

from __future__ import annotations

import gzip
import json
from bisect import bisect
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import cast

from pipeline.errors import InvalidInput

SAMPLE = Path(__file__).resolve().parents[2] / "examples" / "questions" / "queries.jsonl"


def read(file: Path) -> tuple[str, ...]:
    """One query a line, or BEIR's queries.jsonl (its `text`); either may end in .gz. Equal ones count once.

    Raises InvalidInput for a file that cannot be read or holds none.
    """
    try:
        lines = _text(file).splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        raise InvalidInput(f"The queries '{file}' cannot be read: {failure}.", field="--queries") from failure
    as_json = ".jsonl" in file.suffixes
    texts = (_of_json(line, file, number) if as_json else line for number, line in enumerate(lines, 1) if line.strip())
    queries = tuple(dict.fromkeys(text.strip() for text in texts))
    if not queries:
        raise InvalidInput(f"'{file}' holds no query. Write one a line.", field="--queries")
    return queries


def fingerprint(queries: Sequence[str]) -> str:
    """Tells two sets of queries apart, their order included."""
    return sha256("\n".join(queries).encode()).hexdigest()[:16]


class Zipf:
    """Draws places 0..count-1: the one of rank r with a probability in proportion to 1 / r ** exponent.

    Which query has which rank is drawn too, so that the first lines of a file are not the popular ones. With 0 all are
    equally likely.
    """

    def __init__(self, count: int, exponent: float, seed: int) -> None:
        self._ranked = list(range(count))
        Random(f"{seed} ranks").shuffle(self._ranked)
        self._heights = list(accumulate((rank + 1) ** -exponent for rank in range(count)))

    def draws(self, seed: int, what: str = "queries") -> Iterator[int]:
        """Places without end, the same for the same seed; `what` names a sequence that is drawn apart from others."""
        chance = Random(f"{seed} {what}")
        last = len(self._ranked) - 1
        while True:
            rank = bisect(self._heights, chance.random() * self._heights[-1])
            yield self._ranked[min(rank, last)]


def in_order(count: int) -> Iterator[int]:
    """0, 1, … count-1, and again: each query once before any comes a second time."""
    while True:
        yield from range(count)


def _text(file: Path) -> str:
    if file.suffix == ".gz":
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            return lines.read()
    return file.read_text(encoding="utf-8")


def _of_json(line: str, file: Path, number: int) -> str:
    try:
        row: object = json.loads(line)
    except json.JSONDecodeError as failure:
        raise InvalidInput(f"Line {number} of '{file}' is no JSON: {failure}.", field="--queries") from failure
    text = cast("dict[str, object]", row).get("text") if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise InvalidInput(f"Line {number} of '{file}' has no 'text', as BEIR's queries have.", field="--queries")
    return text
