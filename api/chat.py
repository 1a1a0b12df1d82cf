"""`POST /v1/chat/completions`: cited answers for OpenAI clients, and `GET /v1/models`: what they may name."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.bodies import DEADLINE, body_of, documented
from api.completions import CompletionOut
from api.conversations import ChatIn, models_of, understood
from api.events import Told
from api.service import Inside, enter
from api.telling import Telling
from api.wire import ErrorOut, stepped_back
from pipeline.clock import Stage
from pipeline.errors import NotFound
from pipeline.passages import Scope

router = APIRouter(tags=["chat"])

EXAMPLES: dict[str, Any] = {
    "a question": {
        "value": {"model": "handbook", "messages": [{"role": "user", "content": "How many days of leave do I have?"}]}
    },
    "a streamed follow-up with fleetfoot's own fields": {
        "value": {
            "model": "handbook@default",
            "messages": [
                {"role": "system", "content": "Answer in one sentence."},
                {"role": "user", "content": "How many days of leave do I have?"},
                {"role": "assistant", "content": "You have 28 days of leave [1]."},
                {"role": "user", "content": "And in Germany?"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "deadline_ms": 2000,
            "total_deadline_ms": 20000,
            "stream_events": True,
            "retrieval": {"top_k": 6, "token_budget": 1200},
        }
    },
}
STREAM_EXAMPLE = (
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"handbook","choices":[{"index":0,'
    '"delta":{"role":"assistant","content":"28 days [1]."},"finish_reason":null}]}\n\n'
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"handbook","choices":[{"index":0,'
    '"delta":{},"finish_reason":"stop"}],"fleetfoot":{"citations":[{"number":1}]}}\n\ndata: [DONE]\n\n'
)


class ModelOut(BaseModel):
    """A collection to answer from, with a profile if the name has an @."""

    id: str
    object: str = "model"
    created: int
    owned_by: str


class ModelsOut(BaseModel):
    """All that `model` may be."""

    object: str = "list"
    data: list[ModelOut]


@router.post(
    "/v1/chat/completions",
    responses={
        200: {"model": CompletionOut, "content": {"text/event-stream": {"example": STREAM_EXAMPLE}}},
        "default": {"model": ErrorOut},
    },
    openapi_extra=documented(ChatIn, EXAMPLES),
)
async def chat(request: Request) -> Response:
    """Answers from a collection, with citations, as an OpenAI chat completion.

    The first token is awaited before anything is sent: a late one is a 504, a full service a 503. What fails later is
    an `error` event that ends the stream. Only with `stream_events` the headers leave before the first token.
    """
    body = await body_of(request, ChatIn)
    here = enter(request, Scope.READ)
    visit, load = here.visit, here.behind.load
    visit.caller = stepped_back(visit.caller, body.priority)
    asked = understood(body, here.stages.profiles, here.limits, visit.caller, visit.id, request.headers.get(DEADLINE))
    visit.promised, visit.profile = asked.first_token, asked.profile
    visit.remember_query(asked.query.text)
    priority = visit.caller.priority
    load.refuse_late(Stage.FIRST_TOKEN, asked.first_token - visit.elapsed(), priority)
    eased = load.eased(asked.query.profile, asked.finding - visit.elapsed(), priority)
    asked = replace(asked, query=replace(asked.query, profile=eased.profile), eased=eased.degraded)
    telling = Telling(asked, here)
    return Told(telling.stream) if asked.stream else await telling.whole()


@router.get("/v1/models", responses={200: {"model": ModelsOut}, "default": {"model": ErrorOut}})
async def models(request: Request) -> Response:
    """Every collection, with each profile that it can be answered with."""
    return _json(ModelsOut(data=await _models(enter(request, Scope.READ))))


@router.get("/v1/models/{model}", responses={200: {"model": ModelOut}, "default": {"model": ErrorOut}})
async def model(
    model: Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})],
    request: Request,
) -> Response:
    """One of them."""
    known = await _models(enter(request, Scope.READ))
    for each in known:
        if each.id == model:
            return _json(each)
    raise NotFound("model", model, [each.id for each in known])


async def _models(here: Inside) -> list[ModelOut]:
    collections = await here.catalog(lambda it: it.collections(here.tenant))
    return [
        ModelOut(id=name, created=int(each.created), owned_by=here.tenant)
        for each in collections
        for name in models_of([each.name], here.stages.profiles)
    ]


def _json(body: BaseModel) -> Response:
    return Response(body.model_dump_json().encode(), media_type="application/json")
