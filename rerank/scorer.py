"""What anytime reranking asks of a model, and how it is told to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import onnxruntime  # type: ignore[import-untyped]  # it ships no types

from pipeline.errors import FleetfootError
from rerank.cost import CostModel
from rerank.pairs import Pair, PairTemplate

_ort: Any = onnxruntime


class PairScorer(Protocol):
    """What anytime reranking asks of a model; safe to call from several threads."""

    @property
    def tokenizer(self) -> str:
        """The fingerprint of its tokenizer, as in `Shelf.tokenizer`."""
        ...

    @property
    def template(self) -> PairTemplate: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def cost(self) -> CostModel: ...

    def token_ids(self, text: str) -> list[int]:
        """Without special tokens, not truncated."""
        ...

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        """One logit per pair, None when it was stopped. Raises ScoringFailed."""
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
