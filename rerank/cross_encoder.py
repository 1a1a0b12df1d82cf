"""Reranking with a cross-encoder, within an allowance: late costs quality, not time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pipeline.clock import Clock, Lap, Stage
from pipeline.errors import OutOfTime, Overloaded
from pipeline.passages import Candidates, Degraded, Query, Ranking
from rerank.anytime import Asked, Progress
from rerank.merging import as_fused, merged
from rerank.scheduler import PairScheduler
from rerank.scorer import KnownScores, ScoringFailed
from rerank.shapes import Shape

log = logging.getLogger(__name__)


class CrossEncoderReranker:
    """Reads query and passage together, best candidates first, as many pairs as will be done in time.

    A cost model says what fits before it is begun; a run that takes longer all the same is terminated where the
    allowance ends. Whatever was scored by then is merged with the rest (`rerank/merging.py`), so there is always a
    ranking: running out of time, a full line and a failing model each give up reordering the candidates that were not
    reached, and say so. `known` has scores from before, which take no time, and is given the new ones.
    """

    def __init__(self, scheduler: PairScheduler, known: KnownScores | None = None) -> None:
        self._scheduler = scheduler
        self._known = known

    @property
    def line(self) -> PairScheduler:
        """Where requests stand, which knows how long a newcomer would wait and what was computed so far."""
        return self._scheduler

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:
        keys = [candidate.key for candidate in candidates.items[: max(query.profile.rerank.depth, 0)]]
        if not keys:
            return as_fused(candidates)
        hashes = candidates.shelf.content_hashes(keys) if self._known is not None else ()
        known: Mapping[int, float] = {}
        progress = Progress()
        reason, why = "out_of_time", ""
        try:
            async with clock.lap(Stage.RERANK) as lap:
                if self._known is not None:
                    known = await self._known.look_up(query.text, hashes, lap)
                    progress.add([*known], [*known.values()])
                left = {place: key for place, key in enumerate(keys) if place not in known}
                if left:
                    await self._score(query, candidates, left, lap, progress)
        except OutOfTime:
            reason = "out_of_time"
        except Overloaded:
            reason = "overloaded"
        except ScoringFailed as failure:
            log.warning("reranking failed, the fused order stands: %s", failure, exc_info=failure)
            reason, why = "failed", f": {failure}"
        finally:
            self._keep(query, hashes, known, progress)
        scores = progress.scores()
        if len(scores) == len(keys):
            return merged(candidates, scores)
        before = f" ({len(known)} known before)" if known else ""
        detail = f"scored {len(scores)} of {len(keys)}{before}{why}"
        return merged(candidates, scores, (Degraded(Stage.RERANK, reason, detail),))

    async def _score(
        self, query: Query, candidates: Candidates, keys: Mapping[int, int], lap: Lap, progress: Progress
    ) -> None:
        until = lap.deadline - self._scheduler.options.reserve
        if self._least(query, candidates, [*keys.values()]) > until - self._scheduler.now():
            self._scheduler.scorer.cost.refused()
            return
        await self._scheduler.score(Asked(query.text, candidates.shelf, keys, until), progress, lap)

    def _least(self, query: Query, candidates: Candidates, keys: Sequence[int]) -> float:
        """Seconds that the shortest pair takes at least, without tokenising: a query has a token a word or more."""
        scorer = self._scheduler.scorer
        tokens = min(candidates.shelf.tokens(keys)) + len(query.text.split()) + scorer.template.special
        return scorer.cost.careful(Shape(1, min(tokens, scorer.max_tokens)))

    def _keep(self, query: Query, hashes: Sequence[str], known: Mapping[int, float], progress: Progress) -> None:
        if self._known is None:
            return
        fresh = {hashes[place]: score for place, score in progress.scores().items() if place not in known}
        if fresh:
            self._known.keep(query.text, fresh)
