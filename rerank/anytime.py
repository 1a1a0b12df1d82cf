"""One request's pairs, in the order in which they matter: which are worth beginning now; computes, never waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.ports import Shelf
from rerank.pairs import Pair
from rerank.passage_tokens import PassageTokens
from rerank.scorer import PairScorer, ScoringFailed
from rerank.shapes import Shape, grouped


@dataclass(frozen=True, slots=True)
class AnytimeOptions:
    """How scoring goes down the fused order.

    `window` candidates are taken at a time and sorted by length only among themselves; `run_tokens` padded tokens at
    most are computed per call of the model, between two of which the clock is looked at. `reserve` seconds of the
    allowance are left for handing the result back. A passage gets at least `least_passage` tokens, or the query is
    too long to rerank for.
    """

    window: int = 8
    run_tokens: int = 512
    reserve: float = 0.0005
    least_passage: int = 16

    @classmethod
    def on(cls, device: str) -> AnytimeOptions:
        """As measured for a CPU; a GPU is given all pairs of a request, and of several, at once."""
        return cls() if device == "cpu" else cls(window=64, run_tokens=64 * 256)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request wants scored: `keys` by their place in the fused order, best first, until `until`."""

    question: str
    shelf: Shelf
    keys: Mapping[int, int]
    until: float


class Progress:
    """What has been scored so far: written by the owner thread, readable at any time by whoever waits for it."""

    __slots__ = ("_scored",)

    def __init__(self, known: Mapping[int, float] | None = None) -> None:
        self._scored: list[tuple[int, float]] = list((known or {}).items())

    def add(self, places: Sequence[int], scores: Sequence[float]) -> None:
        """Takes in one run, all of it or nothing: extending a list is one step under the interpreter lock."""
        self._scored.extend(zip(places, scores, strict=True))

    def scores(self) -> dict[int, float]:
        """A copy: place in the fused order to rerank score."""
        return dict(tuple(self._scored))


class Plan:
    """Chooses a request's next run. Belongs to the thread that owns the model.

    Candidates are taken in fused order, as many as fit the request's part of the time that is left, `window` at most;
    only these are sorted by length. One that would take too long is passed over, so that time too short for a long
    passage is not wasted. Stopping after any run leaves a valid set of scored places.
    """

    def __init__(self, scorer: PairScorer, passages: PassageTokens, options: AnytimeOptions, asked: Asked) -> None:
        self.asked = asked
        self._scorer = scorer
        self._passages = passages
        self._options = options
        self._query: list[int] | None = None
        self._ahead = deque(asked.keys)
        self._pairs: dict[int, Pair] = {}
        self._runs: deque[list[int]] = deque()

    def shape(self, places: Sequence[int]) -> Shape:
        """The shape in which these would be run together."""
        return self._shape(len(places), max(len(self._pairs[place].ids) for place in places))

    def pairs(self, places: Sequence[int]) -> list[Pair]:
        """The model's input for places that a run was planned for."""
        return [self._pairs[place] for place in places]

    def next(self, now: Callable[[], float], sharing: int, *, dares: bool = False) -> list[int] | None:
        """Places of the run to begin next, None when nothing fits any more or all is done.

        So many requests are `sharing` the model now, so this one has that part of the time until it ends. Usually a run
        must fit on the careful side, for one that is terminated is time taken from others; who `dares` begins what
        fits more likely than not. Raises ScoringFailed for a query that leaves no room for passages.
        """
        cost = self._scorer.cost.expected if dares else self._scorer.cost.careful
        while self._runs or self._take(now, sharing, cost):
            run = self._runs.popleft()
            left = self.asked.until - now()
            while run and cost(self.shape(run)) > left:
                self._forget(run.pop())  # the longest: it will fit less and less
            if run:
                return run
        return None

    def put_back(self, run: list[int]) -> None:
        """Returns a run that was not begun; it comes first next time."""
        self._runs.appendleft(run)

    def done(self, run: Sequence[int]) -> None:
        """Lets go of what was scored."""
        for place in run:
            self._forget(place)

    def _take(self, now: Callable[[], float], sharing: int, bound: Callable[[Shape], float]) -> bool:
        """Plans the runs of the next window; False when there is none."""
        cost = self._scorer.cost
        window = self._options.window if cost.known else 1  # what nothing is known about is tried with one pair
        chosen: list[int] = []
        spent = 0.0
        while self._ahead and len(chosen) < window:
            left = self.asked.until - now()
            if left <= 0:
                return False
            place = self._ahead[0]
            alone = self._shape(1, len(self._pair(place).ids))
            spent += cost.expected(alone)
            if chosen and spent > left / sharing:
                break
            self._ahead.popleft()
            if bound(alone) > left:
                self._forget(place)
                spent -= cost.expected(alone)
            else:
                chosen.append(place)
        lengths = [len(self._pairs[place].ids) for place in chosen]
        runs = grouped(lengths, self._shape, self._options.run_tokens, cost.expected)
        self._runs.extend([chosen[index] for index in run] for run in runs)
        return bool(chosen)

    def _pair(self, place: int) -> Pair:
        if place not in self._pairs:
            self._join(list(self._ahead)[: self._options.window])
        return self._pairs[place]

    def _join(self, places: Sequence[int]) -> None:
        query, limit = self._tokens(), self._scorer.max_tokens
        keys = [self.asked.keys[place] for place in places]
        for place, ids in zip(places, self._passages.of(self.asked.shelf, keys, limit), strict=True):
            self._pairs[place] = self._scorer.template.join(query, ids, limit)

    def _tokens(self) -> list[int]:
        if self._query is None:
            self._query = self._scorer.token_ids(self.asked.question)
            room = self._scorer.max_tokens - self._scorer.template.special - len(self._query)
            if room < self._options.least_passage:
                raise ScoringFailed(
                    f"the query takes {len(self._query)} of the reranker's {self._scorer.max_tokens} tokens, "
                    f"which leaves fewer than {self._options.least_passage} for a passage"
                )
        return self._query

    def _shape(self, rows: int, longest: int) -> Shape:
        return self._scorer.buckets.around(rows, longest, self._scorer.max_tokens)

    def _forget(self, place: int) -> None:
        self._pairs.pop(place, None)
