"""Where each passage of one document stands in each leg, exactly: also far beyond what a request looks at.

It asks the functions that serve (the same terms and statistics, the same kernel, the same inner products, the same
masks), only for all rows instead of the best few, so that it cannot tell another story than they do. What that costs
grows with the collection; it has a lane and a deadline of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.clock import Clock, Stage
from pipeline.errors import InvalidInput
from pipeline.explaining import Evidence, LegPlace, Seen, TermShare, to_blame
from pipeline.filters import Comparison
from pipeline.lane import Lane
from pipeline.passages import Candidates, Leg, Query
from retrieve.filtered import nearest_of
from retrieve.filtering import mask_in, mask_of
from retrieve.hybrid import HybridOptions, LookedUp, joined, look_up
from retrieve.query_encoder import QueryEncoder
from retrieve.rows import Rows
from retrieve.segment import Segment
from retrieve.shelf import GenerationShelf, key_of

Masks = Sequence[NDArray[np.uint8] | None]
Wanted = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Leaves:
    """The document's rows in one segment, `[rows] int64`, and which rows of it may be found: with the document's own
    let in, and without."""

    place: int
    rows: NDArray[np.int64]
    open: NDArray[np.uint8] | None
    allowed: NDArray[np.uint8] | None


class ExactExplainer:
    """Implements Explainer over generations that are mapped here."""

    def __init__(self, encoder: QueryEncoder, lane: Lane, options: HybridOptions | None = None) -> None:
        self._encoder = encoder
        self._lane = lane
        self._options = options or HybridOptions()

    async def explain(self, query: Query, candidates: Candidates, document_id: str, clock: Clock) -> Evidence:
        """Implements Explainer."""
        shelf = candidates.shelf
        if not isinstance(shelf, GenerationShelf):
            raise InvalidInput("Only what is searched in this process can be explained.")
        if not any(len(segment.living(document_id)) for segment in shelf.segments):
            return Evidence(())
        vector: NDArray[np.float32] | None = None
        if Leg.DENSE in query.profile.search.legs:
            async with clock.lap(Stage.ENCODE) as lap:
                vectors = await self._encoder.encode([query.text, *(aside.text for aside in query.asides)], lap)
            vector = joined(vectors, query.asides)
        async with clock.lap(Stage.EXPLAIN) as lap:
            return await self._lane.run(
                lap, lambda it: evidence(query, shelf, document_id, vector, self._options.most_terms, it.wanted)
            )


def evidence(
    query: Query,
    shelf: GenerationShelf,
    document_id: str,
    vector: NDArray[np.float32] | None,
    most_terms: int,
    wanted: Wanted,
) -> Evidence:
    """Computes it; `vector` is the query's, `[dimensions] float32`, None where the dense leg was not asked for."""
    segments, labels = shelf.segments, query.caller.labels
    masks = mask_of(segments, query.filter, labels)
    closed = mask_of(segments, None, labels)
    leaves = [_leaves(place, segment, document_id, masks[place]) for place, segment in enumerate(segments)]
    tellers: list[Callable[[int, int], LegPlace]] = []
    looked_up: LookedUp | None = None
    if Leg.LEXICAL in query.profile.search.legs:
        looked_up = look_up(query, shelf.generations, most_terms)
        tellers.append(_lexical(looked_up, leaves))
    if vector is not None and wanted():
        tellers.append(_dense(segments, vector, leaves, wanted))
    told: list[Seen] = []
    for leaf in leaves:
        for row in leaf.rows.tolist():
            key = key_of(leaf.place, row)
            (passage,) = shelf.passages([key])
            told.append(
                Seen(
                    key,
                    passage,
                    tuple(tell(leaf.place, row) for tell in tellers),
                    closed=not _at(closed[leaf.place], row),
                    excluded=_excluded(query, segments[leaf.place], row),
                )
            )
    return Evidence(tuple(told), looked_up.degraded if looked_up else ())


def _leaves(place: int, segment: Segment, document_id: str, mask: NDArray[np.uint8] | None) -> Leaves:
    rows = segment.living(document_id)
    alive = segment.alive
    allowed = alive if mask is None else mask if alive is None else mask & alive
    if allowed is None or not len(rows) or allowed[rows].all():
        return Leaves(place, rows, allowed, allowed)
    let_in = allowed.copy()
    let_in[rows] = 1
    return Leaves(place, rows, let_in, allowed)


def _excluded(query: Query, segment: Segment, row: int) -> tuple[Comparison, ...]:
    if query.filter is None:
        return ()
    labels = query.caller.labels

    def holds(asked: Comparison) -> bool:
        # Both are masks with the caller's labels in them: a row that those close fails every comparison.
        return _at(mask_in(segment, asked, labels), row)

    return to_blame(query.filter, holds)


def _at(mask: NDArray[np.uint8] | None, row: int) -> bool:
    return mask is None or bool(mask[row])


def _lexical(looked_up: LookedUp, leaves: Sequence[Leaves]) -> Callable[[int, int], LegPlace]:
    """Places in the lexical leg, over every row in which a term occurs."""
    if not looked_up.segments:
        return lambda _place, _row: LegPlace(Leg.LEXICAL, None, None, 0)
    every = [
        looked_up.search(leaf.place, looked_up.segments[leaf.place].lexical.postings.documents, leaf.open)
        for leaf in leaves
    ]
    placed = _Placed(every, leaves)

    def tell(place: int, row: int) -> LegPlace:
        rank, score = placed.of(place, row)
        terms = () if rank is None else _terms(looked_up, place, row)
        return LegPlace(Leg.LEXICAL, rank, score, placed.found, terms)

    return tell


def _terms(looked_up: LookedUp, place: int, row: int) -> tuple[TermShare, ...]:
    """What each term adds, most first; they add up to the score but for the rounding of float32."""
    postings, runs = looked_up.segments[place].lexical.postings, looked_up.runs[place]
    weights, statistics = looked_up.terms[place], looked_up.statistics
    found: list[TermShare] = []
    for term, start, end in zip(runs.terms, runs.starts.tolist(), runs.ends.tolist(), strict=True):
        at = start + int(np.searchsorted(postings.rows[start:end], row))
        if at < end and postings.rows[at] == row:
            share = float(np.float32(weights[term] * statistics.idf(term)) * postings.impacts[at])
            found.append(TermShare(term, share, statistics.frequencies.get(term, 0)))
    return tuple(sorted(found, key=lambda share: -share.score))


def _dense(
    segments: Sequence[Segment], vector: NDArray[np.float32], leaves: Sequence[Leaves], wanted: Wanted
) -> Callable[[int, int], LegPlace]:
    """Places by exact inner product, over every row that may be found."""
    every: list[Rows] = []
    for leaf in leaves:
        rows = np.arange(segments[leaf.place].rows) if leaf.open is None else np.flatnonzero(leaf.open)
        near = nearest_of(rows, segments[leaf.place].vectors, vector, len(rows)) if wanted() else Rows.none()
        every.append(near)
    placed = _Placed(every, leaves)

    def tell(place: int, row: int) -> LegPlace:
        rank, score = placed.of(place, row)
        return LegPlace(Leg.DENSE, rank, score, placed.found)

    return tell


class _Placed:
    """Ranks over several segments, of rows that may be found and of the document's own, as if they might."""

    def __init__(self, every: Sequence[Rows], leaves: Sequence[Leaves]) -> None:
        self._every = every
        self._falling = [-rows.scores for rows in every]
        self._kept: list[NDArray[np.int64]] = []  # how many of the first rows may be found
        self._own: list[dict[int, int]] = []
        for rows, leaf in zip(every, leaves, strict=True):
            may = np.ones(len(rows.rows), np.bool_) if leaf.allowed is None else leaf.allowed[rows.rows] != 0
            self._kept.append(np.concatenate([np.zeros(1, np.int64), np.cumsum(may, dtype=np.int64)]))
            own = np.flatnonzero(np.isin(rows.rows, leaf.rows))
            self._own.append(dict(zip(rows.rows[own].tolist(), own.tolist(), strict=True)))
        self.found = sum(int(kept[-1]) for kept in self._kept)

    def of(self, place: int, row: int) -> tuple[int | None, float | None]:
        """Rank and score; None both where the leg gives it no score. Ties go to the lower key."""
        at = self._own[place].get(row)
        if at is None:
            return None, None
        score = np.float32(self._every[place].scores[at])
        better = 0
        for other, (falling, kept) in enumerate(zip(self._falling, self._kept, strict=True)):
            side: Literal["left", "right"] = "right" if other < place else "left"
            before = at if other == place else int(np.searchsorted(falling, -score, side))
            better += int(kept[before])
        return better + 1, float(score)
