"""Reranking with a cross-encoder, within an allowance: late costs quality, not time."""

from __future__ import annotations

import asyncio
import logging
from math import inf

from pipeline.clock import Clock, Lap, Stage
from pipeline.errors import OutOfTime, Overloaded
from pipeline.lane import Lane, Ticket
from pipeline.passages import Candidates, Degraded, Query, Ranking
from rerank.anytime import Anytime, AnytimeOptions, Progress
from rerank.merging import as_fused, merged
from rerank.passage_tokens import PassageTokens
from rerank.scorer import PairScorer, ScoringFailed

log = logging.getLogger(__name__)


class CrossEncoderReranker:
    """Reads query and passage together, best candidates first, as many pairs as will be done in time.

    A cost model says what fits before it is begun; a run that takes longer all the same is terminated `reserve`
    seconds before the allowance ends. Whatever was scored by then is merged with the rest (`rerank/merging.py`), so
    there is always a ranking: running out of time, a full lane and a failing model each give up reordering the
    candidates that were not reached, and say so.
    """

    def __init__(self, scorer: PairScorer, lane: Lane, options: AnytimeOptions) -> None:
        self._scorer = scorer
        self._lane = lane
        self._options = options
        self._passages = PassageTokens(scorer.tokenizer, scorer.token_ids)

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:
        keys = [candidate.key for candidate in candidates.items[: max(query.profile.rerank.depth, 0)]]
        if not keys:
            return as_fused(candidates)
        progress = Progress()
        reason, why = "out_of_time", ""
        try:
            async with clock.lap(Stage.RERANK) as lap:
                await self._score(query, candidates, keys, clock, lap, progress)
        except OutOfTime:
            reason = "out_of_time"
        except Overloaded:
            reason = "overloaded"
        except ScoringFailed as failure:
            log.warning("reranking failed, the fused order stands: %s", failure, exc_info=failure)
            reason, why = "failed", f": {failure}"
        finally:
            progress.stopper.stop()
        scores = progress.scores()
        if len(scores) == len(keys):
            return merged(candidates, scores)
        detail = f"scored {len(scores)} of {len(keys)}{why}"
        return merged(candidates, scores, (Degraded(Stage.RERANK, reason, detail),))

    async def _score(
        self, query: Query, candidates: Candidates, keys: list[int], clock: Clock, lap: Lap, progress: Progress
    ) -> None:
        until = lap.deadline - self._options.reserve
        left = until - clock.now()
        if self._one_pair(candidates, keys[0]) > left:
            self._scorer.cost.refused()
            return

        def work(ticket: Ticket) -> None:
            anytime = Anytime(self._scorer, self._passages, self._options, until, clock.now, ticket.wanted)
            anytime.score(query.text, candidates.shelf, keys, progress)

        alarm = None if left == inf else asyncio.get_running_loop().call_later(left, progress.stopper.stop)
        try:
            await self._lane.run(lap, work, needs=0.0)  # it fits itself to what is left
        finally:
            if alarm is not None:
                alarm.cancel()

    def _one_pair(self, candidates: Candidates, key: int) -> float:
        """Seconds that the first pair takes at least; the query, not tokenised yet, is left out."""
        (tokens,) = candidates.shelf.tokens([key])
        return self._scorer.cost.careful(min(tokens + self._scorer.template.special, self._scorer.max_tokens))
