"""From candidates of which some were scored to one valid ranking.

The rule has two halves.

**Which places are at stake.** The places that scored candidates held in the fused order are dealt out anew among
them; a candidate that was not scored keeps its place. Rerank scores and fused scores have no common scale, and what
the reranker never saw must be neither rewarded nor punished for it. Scoring goes down the fused order, so between
two windows this is "the scored ones first, then the rest as fused"; within a window, which is sorted by length, a
short passage scored early cannot overtake a better hit that has not had its turn.

**Who takes them.** The scored ones in the order of `z - FUSED_WEIGHT * ln(place)`: the rerank score in standard
deviations of this request's scores, less a little for every doubling of the fused place. By the rerank score alone,
quality falls again as more pairs are scored, since among ever more unlikely candidates some get a high score by error
(Jacob et al., Drowning in Documents, arXiv 2411.11767). The weight is from a simulation (`benchmarks/merging.py`): over
twelve kinds of fused order, a reranker with nine tenths of its noise leads from .678 nDCG@10 over .767 after 20 pairs
down to .721 after 50 by the score alone, and over .796 up to .808 by this rule. At no quality of reranker up to that of
the fused order itself does the mean fall by a standard error as more is scored. A nearly perfect one pays .005 for it.
It does not hold for a reranker that is worse than the fused order, nor where both err in the same direction.

Equal standing keeps the fused order. `Ranked.score` is 1/place: strictly decreasing, also in the single precision in
which trec_eval reads run files, where near-equal scores would be ties.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from statistics import fmean, pstdev

from pipeline.passages import Candidates, Degraded, Ranked, Ranking

FUSED_WEIGHT = 0.65
# Below this the scores differ by rounding only.
_SAME = 1e-6


def merged(candidates: Candidates, scores: Mapping[int, float], degraded: tuple[Degraded, ...] = ()) -> Ranking:
    """Ranks all candidates; `scores` maps places in the fused order (from 0) to rerank scores, higher is better."""
    places = sorted(scores)
    order = list(range(len(candidates.items)))
    for place, taken_by in zip(places, best_first(places, scores), strict=True):
        order[place] = taken_by
    return Ranking(
        tuple(
            Ranked(candidates.items[fused], 1.0 / place, scores.get(fused))
            for place, fused in enumerate(order, start=1)
        ),
        degraded,
    )


def as_fused(candidates: Candidates, degraded: tuple[Degraded, ...] = ()) -> Ranking:
    """The ranking when nothing was scored."""
    return merged(candidates, {}, degraded)


def best_first(places: list[int], scores: Mapping[int, float], weight: float = FUSED_WEIGHT) -> list[int]:
    """Scored places in the order in which they deserve the places that they held; `places` ascend."""
    if not places:
        return []
    mean, deviation = fmean(scores.values()), pstdev(scores.values())
    if deviation < _SAME:
        return places
    standing = {place: (scores[place] - mean) / deviation - weight * log(place + 1) for place in places}
    return sorted(places, key=lambda place: (-standing[place], place))
