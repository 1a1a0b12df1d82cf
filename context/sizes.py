"""How many tokens each candidate takes: looked up, since ingest has counted."""

from __future__ import annotations

from pipeline.clock import Clock, Stage
from pipeline.errors import OutOfTime
from pipeline.passages import Candidates, Degraded, Query, Sizes


class TokenSizer:
    """Reads token counts off the shelf while candidates are being reranked; an array look-up, so it takes no lane."""

    async def size(self, query: Query, candidates: Candidates, clock: Clock) -> Sizes:  # noqa: ARG002  the port's
        """Out of time it leaves counting to the packer, which then looks up only what it considers."""
        keys = [candidate.key for candidate in candidates.items]
        if not keys:
            return Sizes({})
        try:
            async with clock.lap(Stage.SIZES):
                return Sizes(dict(zip(keys, candidates.shelf.tokens(keys), strict=True)))
        except OutOfTime:
            return Sizes({}, (Degraded(Stage.SIZES, "out_of_time", "counted while packing"),))
