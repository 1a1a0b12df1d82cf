"""A cross-encoder whose scores a test decides and whose slowness moves a clock by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from rerank.cost import CostModel
from rerank.pairs import Pair, PairTemplate
from rerank.scorer import ScoringFailed, Stopper
from rerank.shapes import Buckets, Shape
from tests.fakes_shelf import TOKENIZER, token_ids

WARM_UPS = (Shape(1, 10), Shape(1, 40), Shape(1, 200), Shape(4, 10), Shape(4, 40))
TEMPLATE = PairTemplate(opening=(1,), middle=(2,), closing=(2,), types=(0, 0, 0, 1, 1))


class HandClock:
    """Time that passes only when somebody says so."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class FakeScorer:
    """Scores passage `p17` with `scores[17]`; `per_run` seconds pass, and `per_token` for each padded token.

    `slower(run)` multiplies the time of the run with that number, for runs that take longer than expected.
    `stop_after` runs it behaves as terminated; `fail_after` runs it fails. `ended_at` stands for the alarm that
    terminates a run on the real clock: no run goes on beyond that time.
    """

    def __init__(
        self,
        scores: Mapping[int, float],
        clock: HandClock | None = None,
        *,
        per_token: float = 0.0,
        per_run: float = 0.0,
        slower: Callable[[int], float] = lambda _: 1.0,
        ended_at: float = inf,
        stop_after: int | None = None,
        fail_after: int | None = None,
        tokenizer: str = TOKENIZER,
        max_tokens: int = 64,
        warm: bool = True,
        buckets: Buckets | None = None,
    ) -> None:
        self.scores, self.clock, self.per_token, self.slower = scores, clock, per_token, slower
        self.per_run = per_run
        self.ended_at, self.stop_after, self.fail_after = ended_at, stop_after, fail_after
        self.tokenizer, self.max_tokens, self.template = tokenizer, max_tokens, TEMPLATE
        self.buckets = buckets or Buckets()
        self.cost = CostModel()
        self.encoded: list[str] = []
        self.runs: list[list[Pair]] = []
        for shape in WARM_UPS * 20 if warm else ():
            self.cost.learn(shape, self.seconds(shape))

    def token_ids(self, text: str) -> list[int]:
        self.encoded.append(text)
        return token_ids(text)

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        if stopper.stopped or len(self.runs) == self.stop_after:
            return None
        if len(self.runs) == self.fail_after:
            raise ScoringFailed("the graph fell over")
        self.runs.append(list(pairs))
        if self.clock is not None:
            shape = self.buckets.around(len(pairs), max(len(pair.ids) for pair in pairs), self.max_tokens)
            self.clock.time += self.seconds(shape) * self.slower(len(self.runs))
            if self.clock.time > self.ended_at:
                self.clock.time = self.ended_at
                return None
        return [self.scores[self.number(pair)] for pair in pairs]

    def seconds(self, shape: Shape) -> float:
        """What a run takes on an ordinary day."""
        return self.per_run + shape.tokens * self.per_token

    @staticmethod
    def number(pair: Pair) -> int:
        """Which passage a pair is about."""
        return next(number for number in pair.ids if number >= 1_000_000) - 1_000_000
