"""From candidates of which some were scored to one valid ranking.

The rule: **the places that scored candidates held in the fused order are dealt out anew among them, best rerank
score first; a candidate that was not scored keeps its place.** Scoring goes down the fused order, so when time runs
out between two windows this is "scored ones first, by score, then the rest as fused".

Why this one. Rerank scores and fused scores have no common scale, and what the reranker never saw must be neither
rewarded nor punished for that. Whatever subset was scored (a window is sorted by length and may end in the middle),
the fused order decides which places are at stake and the reranker who takes them, so each further pair can only move
candidates that the reranker has compared. With a reranker that orders pairs better than the fused order does,
quality therefore grows with every batch; a test holds it to that. A score that puts scored ones ahead of all others
fails there: a short passage from the end of the window, scored first because it is short, would overtake the best
hit.

Equal rerank scores keep the fused order. `Ranked.score` is 1/place: strictly decreasing, also in the single
precision in which trec_eval reads run files, where near-equal scores would be ties.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.passages import Candidates, Degraded, Ranked, Ranking


def merged(candidates: Candidates, scores: Mapping[int, float], degraded: tuple[Degraded, ...] = ()) -> Ranking:
    """Ranks all candidates; `scores` maps places in the fused order (from 0) to rerank scores, higher is better."""
    places = sorted(scores)
    best_first = sorted(places, key=lambda place: (-scores[place], place))
    order = list(range(len(candidates.items)))
    for place, taken_by in zip(places, best_first, strict=True):
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
