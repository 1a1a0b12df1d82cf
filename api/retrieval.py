"""`POST /v1/retrieve`: passages for one query or several, within a deadline."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from api.bodies import DEADLINE, body_of, documented
from api.filters import filter_of
from api.limits import Limits
from api.service import Inside, enter
from api.timings import DegradedOut, TimingsOut, degraded_out, timings_out
from api.wire import (
    AskedOfStages,
    Dropped,
    ErrorOut,
    PassageOut,
    PriorityIn,
    QueryOut,
    check_text,
    dropped_out,
    named_profile,
    overridden,
    passages_out,
    promised,
    query_out,
    stepped_back,
    within,
)
from pipeline.errors import InvalidInput, TooLarge
from pipeline.load import Eased
from pipeline.passages import Query, Scope

router = APIRouter(tags=["retrieve"])

EXAMPLES: dict[str, Any] = {
    "one query": {"value": {"collection": "handbook", "query": "How many days of leave do I have?", "top_k": 5}},
    "several queries, all options": {
        "value": {
            "collections": ["handbook", "laws"],
            "query": ["notice period", "Kündigungsfrist"],
            "top_k": 10,
            "token_budget": 2000,
            "deadline_ms": 150,
            "profile": "default",
            "filters": {
                "type": "and",
                "filters": [
                    {"type": "eq", "key": "language", "value": "en"},
                    {"type": "nin", "key": "source", "value": ["notices/marmots.md"]},
                ],
            },
            "search": {"legs": ["lexical", "dense"], "candidates": 100, "fusion": "rrf", "rrf_k": 60},
            "rerank": {"depth": 20},
            "pack": {"similarity": 0.9, "join_neighbours": True},
        }
    },
}


class RetrieveIn(AskedOfStages):
    """What to look for, where, and how hard to try."""

    model_config = ConfigDict(extra="forbid")

    query: str | list[str] = Field(description="One query, or up to 16 that are searched at the same time.")
    collection: str | None = Field(default=None, description="Or `collections`, to search several as one.")
    collections: list[str] | None = None
    profile: str = "default"
    deadline_ms: float | None = Field(
        default=None, gt=0, description="Bounds the whole response, from the request's first byte; else the profile's."
    )
    priority: PriorityIn = None


class ResultOut(BaseModel):
    """What one query led to. `degraded` tells what was given up to be in time, and is empty for full quality."""

    query: QueryOut
    passages: list[PassageOut]
    dropped: Dropped
    tokens: int
    generation: str = Field(description="What was searched: collection@number, joined by +.")
    timings: TimingsOut
    degraded: list[DegradedOut]


class RetrieveOut(BaseModel):
    """One result for each query, in the order of the queries."""

    id: str
    results: list[ResultOut]


@router.post(
    "/v1/retrieve",
    responses={200: {"model": RetrieveOut}, "default": {"model": ErrorOut}},
    openapi_extra=documented(RetrieveIn, EXAMPLES),
)
async def retrieve(request: Request) -> Response:
    """Finds passages. Answers with what could be found in time, and says in `degraded` what was given up.

    504 only when no search leg answered within the deadline, 503 when the service is full.
    """
    asked = await body_of(request, RetrieveIn)
    here = enter(request, Scope.READ)
    visit, limits = here.visit, here.limits
    profile = overridden(named_profile(here.stages.profiles, asked.profile), asked, limits)
    deadline = promised(asked.deadline_ms, request.headers.get(DEADLINE), limits.deadline) or profile.deadline
    texts = _texts(asked, limits)
    visit.caller = stepped_back(visit.caller, asked.priority)
    visit.promised, visit.profile = deadline, asked.profile
    visit.remember_query("\n".join(texts))
    collections = _collections(asked, limits)
    eased = here.behind.load.eased(profile, deadline - visit.elapsed(), visit.caller.priority)
    visit.degraded.extend(eased.degraded)
    narrowed = filter_of(asked.filters)
    queries = [
        Query(text, visit.caller, collections, eased.profile, request_id=visit.id, filter=narrowed) for text in texts
    ]
    results = await _together(queries, here, deadline, eased)
    body = RetrieveOut(id=visit.id, results=results).model_dump_json().encode()
    visit.completed = time.perf_counter() - visit.started
    visit.met = visit.completed <= deadline
    return Response(body, media_type="application/json")


async def _together(queries: list[Query], here: Inside, deadline: float, eased: Eased) -> list[ResultOut]:
    """Searched at the same time, so that the encoder takes them as one batch; the first failure is raised as itself."""
    if len(queries) == 1:  # a task more is a turn of the event loop more
        return [await _find(queries[0], here, deadline, eased)]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_find(query, here, deadline, eased)) for query in queries]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _find(query: Query, here: Inside, deadline: float, eased: Eased) -> ResultOut:
    visit = here.visit
    clock = visit.clock(query.profile.budget(deadline))
    found = await here.stages.answering.find(query, clock)
    context = found.context
    visit.degraded.extend(context.degraded)
    visit.generation = context.generation
    return ResultOut(
        query=query_out(query.text, query.asides),
        passages=passages_out(found),
        dropped=dropped_out(found),
        tokens=context.tokens,
        generation=context.generation,
        timings=timings_out(visit, clock),
        degraded=degraded_out((*eased.degraded, *context.degraded)),
    )


def _texts(asked: RetrieveIn, limits: Limits) -> list[str]:
    texts = [asked.query] if isinstance(asked.query, str) else asked.query
    within("query", len(texts), limits.queries)
    if not texts:
        raise InvalidInput("'query' is an empty list. Send one query or several.", field="query")
    for place, text in enumerate(texts):
        field = "query" if isinstance(asked.query, str) else f"query[{place}]"
        check_text(text, field)
        if not text.strip():
            raise InvalidInput(f"'{field}' is empty. Write what to look for.", field=field)
        if len(text) > limits.query_characters:
            raise TooLarge(
                f"'{field}' has {len(text)} characters, and at most {limits.query_characters} are searched for.",
                field=field,
            )
    return texts


def _collections(asked: RetrieveIn, limits: Limits) -> tuple[str, ...]:
    if (asked.collection is None) == (not asked.collections):
        raise InvalidInput(
            "Name either 'collection' or 'collections', as {\"collection\": \"handbook\"}.", field="collection"
        )
    names = tuple(dict.fromkeys([asked.collection] if asked.collection is not None else asked.collections or []))
    within("collections", len(names), limits.collections)
    for name in names:
        check_text(name, "collection")
    return names
