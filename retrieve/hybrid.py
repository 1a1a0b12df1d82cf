"""Both legs at the same time, fused; what one leg cannot deliver in time is given up and said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.caching import CacheCounts
from pipeline.clock import Clock, Stage
from pipeline.errors import InvalidInput, OutOfTime, Overloaded
from pipeline.lane import Lane
from pipeline.passages import Aside, Candidates, Degraded, Leg, Query
from retrieve.allowed import Allowed
from retrieve.filtering import is_known, mask_of
from retrieve.fusion import Found, fuse
from retrieve.generation import Generation
from retrieve.lexical import Runs, Statistics
from retrieve.query_encoder import QueryEncoder
from retrieve.rows import Rows
from retrieve.segment import Segment
from retrieve.serving import Generations
from retrieve.shelf import ROW_BITS, GenerationShelf

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HybridOptions:
    """`most_terms` bounds the lexical leg: of a longer query its weightiest terms are searched, and it says so."""

    most_terms: int = 256


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a leg ended: with what it found, or with the error that kept it from answering."""

    found: Found | None = None
    degraded: tuple[Degraded, ...] = ()
    error: Exception | None = None


class HybridRetriever:
    """Implements Retriever. `lexical` and `dense` are lanes: on a CPU of one or more threads, on a GPU of one.

    All segments of all collections are searched as one: document frequencies are added up before idf is taken, vectors
    come from one embedder, so each leg has one list over all of them, and ranks are taken in that. What is dead, or
    outside the query's filter, or closed to the caller, neither leg can find. `filters` counts the masks for that.
    """

    def __init__(
        self,
        generations: Generations,
        encoder: QueryEncoder,
        *,
        lexical: Lane,
        dense: Lane,
        options: HybridOptions | None = None,
    ) -> None:
        self._generations = generations
        self._encoder = encoder
        self._lexical = lexical
        self._dense = dense
        self._options = options or HybridOptions()
        self.filters = CacheCounts()

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        """Implements Retriever. Raises what kept both legs from answering, OutOfTime before Overloaded, and
        InvalidInput for a filter that means nothing here."""
        shelf = await self._generations.shelf(query.caller.tenant, query.collections, clock)
        if not shelf.generations:
            return Candidates((), shelf, shelf.degraded)
        allowed = await self._allowed(query, shelf, clock)
        outcomes = await self._search(query, shelf, allowed, clock)
        found = [outcome.found for outcome in outcomes if outcome.found is not None]
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        if errors and not found:
            raise next((error for error in errors if isinstance(error, OutOfTime)), errors[0])
        with clock.split(Stage.FUSE):
            items = fuse(found, query.profile.search)
        given_up = (each for outcome in outcomes for each in outcome.degraded)
        return Candidates(items, shelf, (*shelf.degraded, *given_up))

    async def _allowed(self, query: Query, shelf: GenerationShelf, clock: Clock) -> Allowed:
        """What may be found. A filter that was not asked before is computed on a thread; without its result nothing may
        be searched, so being late with it is being late with everything."""
        segments, asked, labels = shelf.segments, query.filter, query.caller.labels
        if is_known(segments, asked, labels):
            return Allowed(segments, mask_of(segments, asked, labels, self.filters))
        async with clock.lap(Stage.FILTER) as lap:
            masks = await self._lexical.run(lap, lambda _: mask_of(segments, asked, labels, self.filters))
        return Allowed(segments, masks)

    async def _search(self, query: Query, shelf: GenerationShelf, allowed: Allowed, clock: Clock) -> list[Outcome]:
        legs = frozenset(query.profile.search.legs)
        if not legs:
            raise InvalidInput("A search needs at least one leg: lexical, dense or both.", field="legs")
        if Leg.DENSE not in legs:
            return [await self._lexical_leg(query, shelf, allowed, clock)]
        if Leg.LEXICAL not in legs:
            return [await self._dense_leg(query, shelf, allowed, clock)]
        async with asyncio.TaskGroup() as group:
            # The lexical leg only joins its lane's line before the dense leg starts to wait for the encoder.
            lexical = group.create_task(self._lexical_leg(query, shelf, allowed, clock))
            dense = await self._dense_leg(query, shelf, allowed, clock)
        return [lexical.result(), dense]

    async def _lexical_leg(self, query: Query, shelf: GenerationShelf, allowed: Allowed, clock: Clock) -> Outcome:
        """Gives up the lexical leg when it is late, refused or failing: the dense leg alone still answers."""
        depth = query.profile.search.candidates
        try:
            async with clock.lap(Stage.LEXICAL) as lap:
                return await self._lexical.run(
                    lap, lambda _: search_terms(query, shelf.generations, depth, self._options.most_terms, allowed)
                )
        except (OutOfTime, Overloaded, RuntimeError) as error:
            return _given_up(Stage.LEXICAL, error)

    async def _dense_leg(self, query: Query, shelf: GenerationShelf, allowed: Allowed, clock: Clock) -> Outcome:
        """Gives up the dense leg when encoding or searching is late, refused or failing."""
        stage = Stage.ENCODE
        try:
            async with clock.lap(stage) as lap:
                vectors = await self._encoder.encode([query.text, *(aside.text for aside in query.asides)], lap)
            stage = Stage.DENSE
            vector = joined(vectors, query.asides)
            depth = query.profile.search.candidates
            async with clock.lap(stage) as lap:
                found = await self._dense.run(lap, lambda _: search_vector(vector, shelf.segments, depth, allowed))
            return Outcome(found)
        except (OutOfTime, Overloaded, RuntimeError) as error:
            return _given_up(stage, error)


def search_terms(
    query: Query, generations: Sequence[Generation], depth: int, most_terms: int, allowed: Allowed | None = None
) -> Outcome:
    """The lexical leg over all generations."""
    looked_up = look_up(query, generations, most_terms)
    if not looked_up.segments:
        return Outcome(degraded=looked_up.degraded)
    allowed = allowed or Allowed.living(looked_up.segments)
    found = [looked_up.search(place, depth, allowed.at(place)) for place in range(len(looked_up.segments))]
    return Outcome(merged(Leg.LEXICAL, found, depth), looked_up.degraded)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What is searched for in each segment: weighted terms and their postings, with the frequencies of all together.

    There are no segments where the query has no terms.
    """

    segments: tuple[Segment, ...]
    terms: tuple[Mapping[str, float], ...]
    runs: tuple[Runs, ...]
    statistics: Statistics
    degraded: tuple[Degraded, ...] = ()

    def search(self, place: int, depth: int, allowed: NDArray[np.uint8] | None) -> Rows:
        """The best rows of the segment at that place."""
        index, terms, runs = self.segments[place].lexical, self.terms[place], self.runs[place]
        return index.search(terms, depth, runs=runs, statistics=self.statistics, allowed=allowed)


def look_up(query: Query, generations: Sequence[Generation], most_terms: int) -> LookedUp:
    """The query's terms in every segment; each generation analyses it for the languages that it holds."""
    analysed = [weighted_terms(query, generation) for generation in generations]
    every = dict.fromkeys(term for terms in analysed for term in terms)
    if not every:
        detail = "nothing is left of the query but stop words and signs; the lexical leg was skipped"
        return LookedUp((), (), (), Statistics(0, {}), (Degraded(Stage.LEXICAL, "no_terms", detail),))
    segments = tuple(segment for generation in generations for segment in generation.segments)
    sizes = [len(generation.segments) for generation in generations]
    runs = _found_terms(segments, analysed, sizes)
    statistics = Statistics.of([segment.lexical for segment in segments], runs)
    degraded: tuple[Degraded, ...] = ()
    if len(every) > most_terms:
        analysed = [weightiest(terms, statistics, most_terms) for terms in analysed]
        runs = _found_terms(segments, analysed, sizes)
        detail = f"the {most_terms} weightiest of {len(every)} terms were searched"
        degraded = (Degraded(Stage.LEXICAL, "approximate", detail),)
    return LookedUp(segments, tuple(_repeated(analysed, sizes)), runs, statistics, degraded)


def _found_terms(
    segments: Sequence[Segment], analysed: Sequence[dict[str, float]], sizes: Sequence[int]
) -> tuple[Runs, ...]:
    repeated = _repeated(analysed, sizes)
    return tuple(segment.lexical.find(terms) for segment, terms in zip(segments, repeated, strict=True))


def _repeated(terms: Sequence[dict[str, float]], sizes: Sequence[int]) -> Iterator[dict[str, float]]:
    """A generation's terms for each of its segments."""
    return (of_one for of_one, size in zip(terms, sizes, strict=True) for _ in range(size))


def weightiest(terms: Mapping[str, float], statistics: Statistics, most: int) -> dict[str, float]:
    """Of the terms that occur anywhere those that can add most to a score."""
    known = [term for term in terms if term in statistics.frequencies]
    known.sort(key=lambda term: -terms[term] * statistics.idf(term))
    return {term: terms[term] for term in known[:most]}


def weighted_terms(query: Query, generation: Generation) -> dict[str, float]:
    """The query's terms and, at their weights, those of earlier turns; a term in both counts for both."""
    terms = generation.analyzer.terms(query.text)
    for aside in query.asides:
        for term, weight in generation.analyzer.terms(aside.text).items():
            terms[term] = terms.get(term, 0.0) + weight * aside.weight
    return terms


def search_vector(
    vector: NDArray[np.float32], segments: Sequence[Segment], depth: int, allowed: Allowed | None = None
) -> Found:
    """The dense leg over all segments."""
    allowed = allowed or Allowed.living(segments)
    found = [segment.dense.search(vector, depth, allowed.at(place)) for place, segment in enumerate(segments)]
    return merged(Leg.DENSE, found, depth)


def merged(leg: Leg, found: Sequence[Rows], depth: int) -> Found:
    """One list of keys over several segments, whose scores are on one scale; ties go to the lower key."""
    if len(found) == 1:
        return Found(leg, found[0].rows[:depth].tolist(), found[0].scores[:depth].tolist())
    found = found or [Rows.none()]
    keys = np.concatenate([rows.rows.astype(np.int64) + (place << ROW_BITS) for place, rows in enumerate(found)])
    scores = np.concatenate([rows.scores for rows in found])
    order = np.lexsort((keys, -scores))[:depth]
    return Found(leg, keys[order].tolist(), scores[order].tolist())


def joined(vectors: NDArray[np.float32], asides: Sequence[Aside]) -> NDArray[np.float32]:
    """The query's vector, moved towards earlier turns by their weights and normalised again."""
    alone: NDArray[np.float32] = vectors[0]
    if not asides:
        return alone
    weights = np.array([1.0, *(aside.weight for aside in asides)], np.float32)
    total: NDArray[np.float32] = np.matmul(weights, vectors)
    length = float(np.linalg.norm(total))
    scaled: NDArray[np.float32] = total / np.float32(length or 1.0)
    return scaled if length > 0 else alone


def _given_up(stage: Stage, error: OutOfTime | Overloaded | RuntimeError) -> Outcome:
    if isinstance(error, OutOfTime):
        return Outcome(degraded=(Degraded(stage, "out_of_time", str(error)),), error=error)
    if isinstance(error, Overloaded):
        return Outcome(degraded=(Degraded(stage, "overloaded", str(error)),), error=error)
    log.error("the stage %s failed", stage, exc_info=error)
    return Outcome(degraded=(Degraded(stage, "failed", str(error)),), error=error)
