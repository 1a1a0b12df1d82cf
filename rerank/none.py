"""The reranker of a service that has none: the fused order, and a word about it where one was asked for."""

from __future__ import annotations

from pipeline.clock import Clock, Stage
from pipeline.passages import Candidates, Degraded, Query, Ranking
from rerank.merging import as_fused


class NoReranker:
    """Keeps the fused order. Says `not_configured` when the profile asks for reranking, nothing when it does not."""

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:  # noqa: ARG002  the port's
        if query.profile.rerank.depth < 1 or not candidates.items:
            return as_fused(candidates)
        return as_fused(candidates, (Degraded(Stage.RERANK, "not_configured", "no reranker model is named"),))
