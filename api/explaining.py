"""`POST /v1/collections/{collection}/explain`: why a document is found by a query, or why it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.filters import filter_of
from api.limits import Limits
from api.service import Inside, enter
from api.timings import DegradedOut, TimingsOut, degraded_out, timings_out
from api.wire import (
    AskedOfStages,
    ErrorOut,
    QueryOut,
    check_text,
    named_profile,
    overridden,
    promised,
    query_out,
    stepped_back,
)
from pipeline.clock import Budget
from pipeline.errors import InvalidInput, NotAllowed, TooLarge
from pipeline.explaining import (
    DocumentState,
    Evidence,
    Explained,
    Explanation,
    LegPlace,
    Standing,
    Verdict,
    explanation,
)
from pipeline.passages import Leg, Query, Scope

router = APIRouter(tags=["retrieve"])

SECONDS = 10.0  # an exact look at a million passages takes .5, cold 2; people wait for this, not programs
SHOWN = 50  # passages of one document
BEGINNING = 300  # characters of a passage's text
EXAMPLES: dict[str, Any] = {
    "by name": {"value": {"query": "How long are lost things kept?", "document": "notices/lost-property.md"}},
    "as it would be asked": {
        "value": {
            "query": "refund",
            "document": "5f0c2d7e9b1a4c3d8e6f7a90",
            "top_k": 3,
            "filters": {"type": "eq", "key": "language", "value": "en"},
            "search": {"candidates": 20},
        }
    },
}


class ExplainIn(AskedOfStages):
    """A query with all that `/v1/retrieve` takes, and the document that it is about."""

    query: str
    document: str = Field(min_length=1, max_length=1024, description="Its id, or the name that it was sent under.")
    profile: str = "default"
    deadline_ms: float | None = Field(default=None, gt=0, description="Of all of this; 10000 where nothing is said.")
    labels: list[str] | None = Field(
        default=None, description="Explain it for a caller with only these of the key's access labels."
    )


class StandingOut(BaseModel):
    """How the catalog has the document: published, under_way, failed or unknown, and why."""

    id: str | None
    name: str
    state: DocumentState
    passages: int
    changing: bool = Field(description="It is about to be replaced or removed.")
    job: str | None
    reason: str


class TermOut(BaseModel):
    """What one term adds to the score, and in how many of the searched passages it is."""

    term: str
    score: float
    passages: int


class PlaceOut(BaseModel):
    """A passage's exact place in one leg, of all that the caller may find; null where the leg gives it no score."""

    rank: int | None
    score: float | None
    of: int
    served: int | None = Field(description="The rank that the search gave it, null where it did not bring it.")
    terms: list[TermOut] = []


class FusedOut(BaseModel):
    """A passage's place among the candidates."""

    rank: int
    score: float


class ExplainedOut(BaseModel):
    """How far one passage came. `verdict` is packed, or what kept it out; `said` is that in a sentence."""

    id: str
    text: str
    heading: list[str]
    page: int | None
    tokens: int
    verdict: Verdict
    said: str
    legs: dict[Leg, PlaceOut]
    fused: FusedOut | None
    rerank_score: float | None
    final: int | None = Field(description="Its rank after reranking.")
    number: int | None = Field(description="The source that it is, or is part of.")
    instead: str | None = Field(description="The passage that it repeats.")


class ExplanationOut(BaseModel):
    """One document and one query. `passages` are those that came furthest, at most 50 of them."""

    id: str
    query: QueryOut
    document: StandingOut
    generation: str
    verdict: Verdict
    said: str
    passages: list[ExplainedOut]
    timings: TimingsOut
    degraded: list[DegradedOut]


@router.post(
    "/v1/collections/{collection}/explain",
    responses={200: {"model": ExplanationOut}, "default": {"model": ErrorOut}},
)
async def explain(
    collection: Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})],
    asked: Annotated[ExplainIn, Body(openapi_examples=EXAMPLES)],
    request: Request,
) -> Response:
    """Runs the query as `/v1/retrieve` would, and looks at every passage of the document exactly.

    A document that the caller may not see is as unknown as one that was never sent. It costs more than a retrieval and
    lets everybody else go first.
    """
    here = enter(request, Scope.READ)
    body = (await _explain(asked, collection, here)).model_dump_json().encode()
    return Response(body, media_type="application/json")


async def _explain(asked: ExplainIn, collection: str, here: Inside) -> ExplanationOut:
    visit, limits = here.visit, here.limits
    profile = overridden(named_profile(here.stages.profiles, asked.profile), asked, limits)
    deadline = promised(asked.deadline_ms, None, limits.deadline) or min(SECONDS, limits.deadline)
    _check(asked, limits)
    visit.promised, visit.profile = deadline, asked.profile
    visit.remember_query(asked.query)
    caller = replace(stepped_back(visit.caller, "batch"), labels=_labels(asked, here))
    visit.caller = stepped_back(visit.caller, "batch")
    standing = await here.catalog(
        lambda it: it.standing(here.tenant, collection, asked.document, labels=here.labels), seconds=deadline
    )
    caller = visit.caller if asked.labels is None else replace(visit.caller, labels=frozenset(asked.labels))
    query = Query(asked.query, caller, (collection,), profile, request_id=visit.id, filter=filter_of(asked.filters))
    clock = visit.clock(profile.budget(deadline))
    found = await here.stages.answering.find(query, clock)
    clock.budget = Budget(deadline)
    evidence = Evidence(())
    if standing.state is DocumentState.PUBLISHED:
        evidence = await here.stages.explainer.explain(query, found.candidates, standing.id, clock)
    visit.generation = found.context.generation
    visit.completed = visit.elapsed()
    visit.met = visit.completed <= deadline
    return _out(query, explanation(query, standing, found, evidence), here, clock_timings=timings_out(visit, clock))


def _labels(asked: ExplainIn, here: Inside) -> frozenset[str]:
    """Those of the caller that it is explained for: a request may step back, as with its priority, never forward."""
    wanted = here.labels if asked.labels is None else frozenset(asked.labels)
    if beyond := sorted(wanted - here.labels):
        raise NotAllowed(
            f"This key does not carry the access label '{beyond[0][:80]}', so it cannot explain for who does. "
            "Use a key that carries it, or leave 'labels' out."
        )
    return wanted


def _check(asked: ExplainIn, limits: Limits) -> None:
    for field, text in (("query", asked.query), ("document", asked.document)):
        check_text(text, field)
        if not text.strip():
            raise InvalidInput(f"'{field}' is empty.", field=field)
    if len(asked.query) > limits.query_characters:
        raise TooLarge(
            f"'query' has {len(asked.query)} characters, and at most {limits.query_characters} are searched for.",
            field="query",
        )


def _out(query: Query, told: Explanation, here: Inside, *, clock_timings: TimingsOut) -> ExplanationOut:
    return ExplanationOut(
        id=here.visit.id,
        query=query_out(query.text, query.asides),
        document=_standing(told.standing),
        generation=told.generation,
        verdict=told.verdict,
        said=told.said,
        passages=[_explained(each) for each in told.passages[:SHOWN]],
        timings=clock_timings,
        degraded=degraded_out(told.degraded),
    )


def _standing(standing: Standing) -> StandingOut:
    return StandingOut(
        id=standing.id or None,
        name=standing.name,
        state=standing.state,
        passages=standing.passages,
        changing=standing.changing,
        job=standing.job or None,
        reason=standing.reason,
    )


def _explained(told: Explained) -> ExplainedOut:
    passage = told.seen.passage
    return ExplainedOut(
        id=passage.id,
        text=passage.text[:BEGINNING],
        heading=list(passage.heading),
        page=passage.page,
        tokens=passage.tokens,
        verdict=told.verdict,
        said=told.said,
        legs={place.leg: _place(place, told) for place in told.seen.places},
        fused=None if told.fused is None else FusedOut(rank=told.fused, score=told.fused_score or 0.0),
        rerank_score=told.rerank_score,
        final=told.final,
        number=told.number,
        instead=told.instead or None,
    )


def _place(place: LegPlace, told: Explained) -> PlaceOut:
    return PlaceOut(
        rank=place.rank,
        score=place.score,
        of=place.of,
        served=(told.hits or {}).get(place.leg),
        terms=[TermOut(term=each.term, score=each.score, passages=each.passages) for each in place.terms],
    )
