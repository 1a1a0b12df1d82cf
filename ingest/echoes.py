"""Which passages of one request say the same: by the runs of three words that they share.

Resemblance as in Broder, "On the resemblance and containment of documents" (SEQUENCES 1997), computed exactly, since a
request has few passages. Search tells near-duplicates by signatures and vectors, and a dry run has no vectors.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from pipeline.passages import Passage
from pipeline.previews import Echo

NEAR = 0.8
_RUN = 3  # words
_COMMON = 50  # passages that share a run before it stands for boilerplate, and finds nobody any more
_WORD = re.compile(r"\w+")


class Echoes:
    """Passages seen so far."""

    def __init__(self) -> None:
        self._places: list[tuple[int, int]] = []
        self._runs: list[int] = []
        self._by_hash: dict[str, int] = {}
        self._by_run: defaultdict[int, list[int]] = defaultdict(list)

    def hear(self, place: int, passages: Sequence[Passage]) -> dict[int, Echo]:
        """Takes a document's passages in, and returns by ordinal the first that each repeats."""
        found: dict[int, Echo] = {}
        for passage in passages:
            runs = runs_of(passage.text)
            echo = self._same(passage) or self._near(runs)
            if echo is not None:
                found[passage.ordinal] = echo
            self._keep(place, passage, runs)
        return found

    def _same(self, passage: Passage) -> Echo | None:
        number = self._by_hash.get(passage.content_hash)
        return None if number is None else Echo(*self._places[number], 1.0)

    def _near(self, runs: frozenset[int]) -> Echo | None:
        """The most similar one, of equal ones the first."""
        shared = Counter(number for run in runs for number in self._by_run.get(run, ()))
        best, most = None, 0.0
        for number, count in sorted(shared.items()):
            similarity = count / (len(runs) + self._runs[number] - count)
            if similarity > most:
                best, most = number, similarity
        return None if best is None or most < NEAR else Echo(*self._places[best], round(most, 3))

    def _keep(self, place: int, passage: Passage, runs: frozenset[int]) -> None:
        number = len(self._places)
        self._places.append((place, passage.ordinal))
        self._runs.append(len(runs))
        self._by_hash.setdefault(passage.content_hash, number)
        for run in runs:
            if len(self._by_run[run]) < _COMMON:
                self._by_run[run].append(number)


def runs_of(text: str) -> frozenset[int]:
    """Hashes of a text's runs of three words, without case; a shorter text is one run."""
    words = _WORD.findall(text.lower())
    last = max(len(words) - _RUN + 1, 1)
    return frozenset(hash(tuple(words[start : start + _RUN])) for start in range(last))
