"""Scores as many candidates as the time allows, in the order in which they matter; computes, on a lane's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.ports import Shelf
from rerank.batching import how_many_fit, padded, runs
from rerank.passage_tokens import PassageTokens
from rerank.scorer import PairScorer, ScoringFailed, Stopper


@dataclass(frozen=True, slots=True)
class AnytimeOptions:
    """How scoring goes down the fused order.

    `window` candidates are taken at a time and sorted by length only among themselves; `run_tokens` padded tokens at
    most are computed per call of the model, between two of which the clock is looked at (256 for a CPU, some
    thousands for a GPU, where `window` should be as large as a run). `reserve` seconds of the allowance are left for
    handing the result back. A passage gets at least `least_passage` tokens, or the query is too long to rerank for.
    """

    window: int = 8
    run_tokens: int = 256
    reserve: float = 0.002
    least_passage: int = 16


class Progress:
    """What has been scored so far: written by the lane's thread, readable at any time by whoever waits for it."""

    __slots__ = ("_scored", "stopper")

    def __init__(self) -> None:
        self._scored: list[tuple[int, float]] = []
        self.stopper = Stopper()

    def add(self, places: Sequence[int], scores: Sequence[float]) -> None:
        """Takes in one run, all of it or nothing: extending a list is one step under the interpreter lock."""
        self._scored.extend(zip(places, scores, strict=True))

    def scores(self) -> dict[int, float]:
        """A copy: place in the fused order to rerank score."""
        return dict(tuple(self._scored))


@dataclass(frozen=True, slots=True)
class Anytime:
    """One request's scoring. `until` and `now` are on the request's clock; `wanted` tells whether anybody waits."""

    scorer: PairScorer
    passages: PassageTokens
    options: AnytimeOptions
    until: float
    now: Callable[[], float]
    wanted: Callable[[], bool]

    def score(self, question: str, shelf: Shelf, keys: Sequence[int], progress: Progress) -> None:
        """Goes down `keys` until all are scored, the next will not fit, or nobody waits any more.

        Stopping after any run leaves a valid `progress`. Raises ScoringFailed, with what came before it kept.
        """
        query = self.scorer.token_ids(question)
        room = self.scorer.max_tokens - self.scorer.template.special - len(query)
        if room < self.options.least_passage:
            raise ScoringFailed(
                f"the query takes {len(query)} of the reranker's {self.scorer.max_tokens} tokens, "
                f"which leaves fewer than {self.options.least_passage} for a passage"
            )
        begun = 0
        while begun < len(keys):
            # What nothing is known about is tried with one pair.
            window = self.options.window if self.scorer.cost.known else 1
            fitting = self._window(query, shelf, keys[begun : begun + window], begun, progress)
            if fitting == 0:
                return
            begun += fitting

    def _window(self, query: list[int], shelf: Shelf, keys: Sequence[int], first: int, progress: Progress) -> int:
        """Scores what fits of a window and returns how many pairs that was; 0 when scoring is over."""
        limit, cost = self.scorer.max_tokens, self.scorer.cost
        if not self._asked_for(progress):
            return 0
        pairs = [self.scorer.template.join(query, ids, limit) for ids in self.passages.of(shelf, keys, limit)]
        lengths = [len(pair.ids) for pair in pairs]
        fitting = how_many_fit(lengths, self.options.run_tokens, self.until - self.now(), cost.expected)
        if fitting == 0 and first == 0:
            cost.refused()
        for run in runs(lengths[:fitting], self.options.run_tokens):
            tokens = padded(lengths, run)
            if not self._asked_for(progress):
                return 0
            began = self.now()
            if began + cost.careful(tokens) > self.until:
                if not progress.scores():
                    cost.refused()
                return 0
            scores = self.scorer.score([pairs[place] for place in run], progress.stopper)
            took = self.now() - began
            if scores is not None or took > cost.expected(tokens):  # a run that was ended took at least this long
                cost.learn(tokens, took)
            if scores is None:
                return 0
            progress.add([first + place for place in run], scores)
        return fitting

    def _asked_for(self, progress: Progress) -> bool:
        return not progress.stopper.stopped and self.wanted() and self.now() <= self.until
