"""What anytime reranking asks of a model, and how it is told to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import onnxruntime  # type: ignore[import-untyped]  # it ships no types

from pipeline.clock import Lap
from pipeline.errors import FleetfootError
from rerank.cost import CostModel
from rerank.pairs import Pair, PairTemplate
from rerank.shapes import Buckets

_ort: Any = onnxruntime


class PairScorer(Protocol):
    """What anytime reranking asks of a model. `score` is called from one thread, the rest from any."""

    @property
    def tokenizer(self) -> str:
        """The fingerprint of its tokenizer, as in `Shelf.tokenizer`."""
        ...

    @property
    def template(self) -> PairTemplate: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def buckets(self) -> Buckets:
        """The shapes in which it is run, which is what `cost` is asked about."""
        ...

    @property
    def cost(self) -> CostModel: ...

    def token_ids(self, text: str) -> list[int]:
        """Without special tokens, not truncated."""
        ...

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        """One logit per pair, None when it was stopped. Raises ScoringFailed."""
        ...


class KnownScores(Protocol):
    """Scores that this very model gave this very query before; what is known costs the budget nothing.

    A passage is named by its content hash (`Passage.content_hash`), so that scores survive a publish. Which model and
    how many tokens of a pair it reads belong to the key too: whoever opens the cache knows them.
    """

    async def look_up(self, query: str, hashes: Sequence[str], lap: Lap) -> Mapping[int, float]:
        """Index into `hashes` to score, for those that are known; within the lap, and it never raises."""
        ...

    def keep(self, query: str, scores: Mapping[str, float]) -> None:
        """Takes in content hash to score; computes, never waits, never raises. Called on the event loop's thread."""
        ...


class Stopper:
    """Ends a request's scoring from another thread: what runs now is terminated, what would follow is not begun."""

    __slots__ = ("options",)

    def __init__(self) -> None:
        self.options: Any = _ort.RunOptions()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self.options.terminate)

    def stop(self) -> None:
        """ONNX Runtime looks at the flag between two nodes of the graph, so a run ends within milliseconds."""
        self.options.terminate = True


class ScoringFailed(FleetfootError):
    """The model could not score a batch; the fused order stands for what was not scored."""

    code = "scoring_failed"
