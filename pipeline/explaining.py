"""Why a document was found, or not: what the catalog says of it, and where each of its passages came and was dropped.

    known? ── in the generation that serves? ── open to the caller? ── through the filter? ── ranked how by each leg?
      ── among the candidates? ── reranked? ── repeated by a better one? ── within top_k and the budget?

The answers come from the very request that is explained, run once more, and from an exact look at the document's own
passages, which tells their ranks also where no leg looked that deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.answering import Found
from pipeline.filters import AND, Comparison, Compound, Filter
from pipeline.passages import Candidate, Cited, Degraded, Leg, Passage, Query, Ranked


class DocumentState(StrEnum):
    """How the catalog has a document. UNKNOWN is also said of what the caller may not see."""

    PUBLISHED = "published"
    UNDER_WAY = "under_way"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Standing:
    """A document as the catalog has it. `reason` says why it failed, or how far it is; `job` brought it last.

    `changing` tells that a published document is about to be replaced or removed.
    """

    id: str
    name: str
    state: DocumentState
    passages: int = 0
    changing: bool = False
    job: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TermShare:
    """What one term of the query adds to a passage's score; it is in so many `passages` of what is searched."""

    term: str
    score: float
    passages: int


@dataclass(frozen=True, slots=True)
class LegPlace:
    """Where a leg would place a passage if it looked at everything that the caller may find.

    `rank` counts from 1 over the `of` passages to which the leg gives a score; None, as `score`, where it gives this
    one none. `terms`, of the lexical leg, add up to the score.
    """

    leg: Leg
    rank: int | None
    score: float | None
    of: int
    terms: tuple[TermShare, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One passage of the document, looked at exactly. `closed` to the caller's labels; `excluded` by comparisons."""

    key: int
    passage: Passage
    places: tuple[LegPlace, ...]
    closed: bool = False
    excluded: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The document's passages in the generations that were searched; none where it is not in them."""

    passages: tuple[Seen, ...]
    degraded: tuple[Degraded, ...] = ()


class Verdict(StrEnum):
    """What became of a passage, or of a document: PACKED, or what kept it out."""

    PACKED = "packed"
    NOT_INDEXED = "not_indexed"
    ACCESS = "access"
    FILTER = "filter"
    CANDIDATES = "candidates"
    DUPLICATE = "duplicate"
    BUDGET = "budget"
    TOP_K = "top_k"


@dataclass(frozen=True, slots=True)
class Explained:
    """One passage: its exact places, how far it got, and what it came to.

    `fused` is its rank among the candidates and `final` its rank after reranking, both from 1; `number` is the source
    that it is, or is part of. `instead` is the id of the passage that it repeats.
    """

    seen: Seen
    verdict: Verdict
    said: str
    fused: int | None = None
    fused_score: float | None = None
    hits: Mapping[Leg, int] | None = None
    rerank_score: float | None = None
    final: int | None = None
    number: int | None = None
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole story of one document and one query; `passages` best first."""

    standing: Standing
    verdict: Verdict
    said: str
    generation: str
    passages: tuple[Explained, ...] = ()
    degraded: tuple[Degraded, ...] = ()


def explanation(query: Query, standing: Standing, found: Found, evidence: Evidence) -> Explanation:
    """Puts together what the request came to and what is known of the document."""
    generation = found.context.generation
    degraded = tuple(dict.fromkeys((*found.context.degraded, *evidence.degraded)))
    if standing.state is DocumentState.UNKNOWN or not evidence.passages:
        said = _not_indexed(standing, generation)
        return Explanation(standing, Verdict.NOT_INDEXED, said, generation, degraded=degraded)
    told = [_explained(query, seen, found) for seen in evidence.passages]
    told.sort(key=_how_far)
    best = told[0]
    said = f"Of its {len(told)} passages the best: {best.said}" if len(told) > 1 else best.said
    return Explanation(standing, best.verdict, said, generation, tuple(told), degraded)


def to_blame(asked: Filter, holds: Callable[[Comparison], bool]) -> tuple[Comparison, ...]:
    """The comparisons for which a passage is left out; none where the filter as a whole lets it through."""
    if isinstance(asked, Comparison):
        return () if holds(asked) else (asked,)
    return _of_parts(asked, holds)


def _of_parts(asked: Compound, holds: Callable[[Comparison], bool]) -> tuple[Comparison, ...]:
    parts = [to_blame(part, holds) for part in asked.parts]
    if asked.op != AND and not all(parts):
        return ()
    return tuple(comparison for part in parts for comparison in part)


def _not_indexed(standing: Standing, generation: str) -> str:
    match standing.state:
        case DocumentState.UNKNOWN:
            return "There is no such document."
        case DocumentState.UNDER_WAY:
            return f"It is under way and not searchable yet ({standing.reason})."
        case DocumentState.FAILED:
            return f"It was sent and failed: {standing.reason}"
        case DocumentState.PUBLISHED if standing.passages == 0:
            return "It is published, and has no passage: nothing was left of its text."
        case _:
            return f"It is published, but not part of {generation}, which this service searches now."


def _explained(query: Query, seen: Seen, found: Found) -> Explained:
    places = {each.key: place for place, each in enumerate(found.candidates.items)}
    ranks = {each.candidate.key: place for place, each in enumerate(found.ranking.items)}
    candidate = found.candidates.items[places[seen.key]] if seen.key in places else None
    ranked = found.ranking.items[ranks[seen.key]] if seen.key in ranks else None
    cited = next((each for each in found.context.items if _has(each, seen.passage)), None)
    verdict, said, instead = _verdict(query, seen, found, candidate, ranked, cited)
    return Explained(
        seen,
        verdict,
        said,
        fused=None if candidate is None else places[seen.key] + 1,
        fused_score=None if candidate is None else candidate.score,
        hits=None if candidate is None else {hit.leg: hit.rank for hit in candidate.hits},
        rerank_score=None if ranked is None else ranked.rerank_score,
        final=None if ranked is None else ranks[seen.key] + 1,
        number=None if cited is None else cited.number,
        instead=instead,
    )


def _has(cited: Cited, passage: Passage) -> bool:
    return any(each.id == passage.id and each.source == passage.source for each in cited.passages)


def _verdict(
    query: Query,
    seen: Seen,
    found: Found,
    candidate: Candidate | None,
    ranked: Ranked | None,
    cited: Cited | None,
) -> tuple[Verdict, str, str]:
    """What became of it, in a sentence, and the passage that stands in its place."""
    pack = query.profile.pack
    if cited is not None:
        return Verdict.PACKED, f"It is source {cited.number}.", ""
    if seen.closed:
        return Verdict.ACCESS, "The caller's key has none of the labels of which it needs one.", ""
    if seen.excluded:
        named = ", ".join(_written(each) for each in seen.excluded)
        return Verdict.FILTER, f"The filter leaves it out: {named}.", ""
    if candidate is None or ranked is None:
        return Verdict.CANDIDATES, _beyond(query, seen.places), ""
    dropped = next((each for each in found.context.dropped if each.key == seen.key), None)
    match dropped.reason if dropped else "":
        case "duplicate" if dropped is not None and dropped.instead is not None:
            (instead,) = found.candidates.shelf.passages([dropped.instead])
            return Verdict.DUPLICATE, f"It says nearly the same as {instead.id}, which ranks before it.", instead.id
        case "budget":
            said = f"It has {seen.passage.tokens} tokens, more than was left of the budget of {pack.token_budget}."
            return Verdict.BUDGET, said, ""
        case _:
            return Verdict.TOP_K, f"{pack.top_k} passages were asked for, and better ones took their places.", ""


def _beyond(query: Query, places: Sequence[LegPlace]) -> str:
    depth = query.profile.search.candidates
    told = [
        f"{place.leg} rank {place.rank} of {place.of}" if place.rank is not None else f"no {place.leg} match"
        for place in places
    ]
    within = [place for place in places if place.rank is not None and place.rank <= depth]
    if not within:
        return f"It is beyond the {depth} candidates that each leg brings: {', '.join(told)}."
    if len(places) > 1:
        return f"It is not among the best {depth} of what both legs bring: {', '.join(told)}."
    return f"The search did not bring it, which is not exact: {', '.join(told)}."


def _written(asked: Comparison) -> str:
    return f"{asked.key} {asked.op} {asked.value!r}"


def _how_far(told: Explained) -> tuple[int, int, int]:
    """Sources first, then by final rank, then by the best rank in any leg."""
    best = min((place.rank for place in told.seen.places if place.rank is not None), default=1 << 60)
    return (
        told.number if told.number is not None else 1 << 60,
        told.final if told.final is not None else 1 << 60,
        best,
    )
