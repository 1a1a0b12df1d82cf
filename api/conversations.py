"""The body of a chat request, and the query in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from api.filters import filter_of
from api.limits import Limits
from api.questions import Question, question
from api.wire import AskedOfStages, PriorityIn, check_text, overridden, promised, within
from pipeline.errors import InvalidInput, NotFound, TooLarge
from pipeline.passages import Caller, Degraded, Query, Turn
from pipeline.profile import Profile

DEFAULT_PROFILE = "default"


class MessageIn(BaseModel):
    """One message; fields beyond these (name, tool_calls, tool_call_id, …) reach the model untouched."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[dict[str, Any]] | None = Field(
        default=None, description='Text, or parts of it: [{"type": "text", "text": "…"}].'
    )


class StreamOptionsIn(BaseModel):
    """OpenAI's options of a stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool = False


class ChatIn(BaseModel):
    """An OpenAI chat request. Sampling fields (temperature, max_tokens, tools, stop, n, …) reach the model untouched.

    The fields below `stream_options` are fleetfoot's own; clients send them as extra body fields.
    """

    model_config = ConfigDict(extra="allow")

    model: str = Field(description="`collection` or `collection@profile`; GET /v1/models lists them.")
    messages: list[MessageIn] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptionsIn | None = None
    retrieval_query: str | None = Field(default=None, description="Searched instead of the last user message.")
    stream_events: bool = Field(
        default=False, description="Send the headers and a `passages` event as soon as the context is packed."
    )
    deadline_ms: float | None = Field(default=None, gt=0, description="Until the first token, from the first byte.")
    total_deadline_ms: float | None = Field(
        default=None, gt=0, description="Until the end; a stream is then ended with finish_reason `length`."
    )
    priority: PriorityIn = None
    retrieval: AskedOfStages = AskedOfStages()


@dataclass(frozen=True, slots=True)
class Asked:
    """A chat request, understood. `finding` and `first_token` are deadlines in seconds, `total` may be None.

    `eased` is what was given up for the service's load before anything was begun.
    """

    model: str
    profile: str
    query: Query
    finding: float
    first_token: float
    total: float | None
    stream: bool
    include_usage: bool
    stream_events: bool
    eased: tuple[Degraded, ...] = ()


def understood(
    body: ChatIn,
    profiles: Mapping[str, Profile],
    limits: Limits,
    caller: Caller,
    request_id: str,
    header_ms: str | None,
) -> Asked:
    """What is asked. Raises InvalidInput for what cannot be used and NotFound for an unknown profile.

    Of a chat's deadline, finding gets a share, so that a model still has time for its first token.
    """
    check_text(body.model, "model")
    collection, profile_name = split_model(body.model, profiles)
    profile = overridden(profiles[profile_name], body.retrieval, limits)
    within("total_deadline_ms", body.total_deadline_ms, limits.total_deadline * 1000)
    named = promised(body.deadline_ms, header_ms, limits.deadline)
    total = None if body.total_deadline_ms is None else body.total_deadline_ms / 1000
    first_token = min(named or limits.first_token_deadline, total or limits.total_deadline)
    turns = tuple(_turn(message, place) for place, message in enumerate(body.messages))
    asked = _question(body, turns, limits)
    return Asked(
        model=body.model,
        profile=profile_name,
        query=Query(
            text=asked.text,
            caller=caller,
            collections=(collection,),
            profile=profile,
            asides=asked.asides,
            conversation=turns,
            sampling=dict(body.model_extra or {}),
            request_id=request_id,
            filter=filter_of(body.retrieval.filters, "retrieval.filters"),
        ),
        finding=min(profile.deadline, first_token * limits.finding_share),
        first_token=first_token,
        total=total,
        stream=body.stream,
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
        stream_events=body.stream_events,
    )


def split_model(model: str, profiles: Mapping[str, Profile]) -> tuple[str, str]:
    """`handbook@quick` as collection and profile. Raises NotFound for a profile that nobody knows."""
    collection, at, profile = model.partition("@")
    profile = profile if at else DEFAULT_PROFILE
    if profile not in profiles:
        raise NotFound("model", model, models_of([collection], profiles))
    return collection, profile


def models_of(collections: list[str], profiles: Mapping[str, Profile]) -> list[str]:
    """Every name that `model` may have: each collection, alone for the default profile and with each other one."""
    others = [name for name in profiles if name != DEFAULT_PROFILE]
    return [model for name in collections for model in (name, *(f"{name}@{profile}" for profile in others))]


def _question(body: ChatIn, turns: tuple[Turn, ...], limits: Limits) -> Question:
    if body.retrieval_query is not None:
        if not body.retrieval_query.strip():
            raise InvalidInput(
                "'retrieval_query' is empty. Leave it out, or write what to look for.", field="retrieval_query"
            )
        check_text(body.retrieval_query, "retrieval_query")
        if len(body.retrieval_query) > limits.query_characters:
            raise TooLarge(
                f"'retrieval_query' has {len(body.retrieval_query)} characters, of {limits.query_characters} at most.",
                field="retrieval_query",
            )
        return Question(body.retrieval_query)
    said = [turn.content for turn in turns if turn.role == "user"]
    if not said or not said[-1].strip():
        raise InvalidInput(
            "'messages' has no user message with text at its end, so there is nothing to look for. "
            "Add one, or name a 'retrieval_query'.",
            field="messages",
        )
    return question(said, limits.query_characters)


def _turn(message: MessageIn, place: int) -> Turn:
    extra = dict(message.model_extra or {})
    if not isinstance(message.content, list):
        check_text(message.content or "", f"messages[{place}].content")
        return Turn(message.role, message.content or "", extra)
    texts: list[str] = []
    for number, part in enumerate(message.content):
        text = part.get("text")
        if part.get("type") != "text" or not isinstance(text, str):
            field = f"messages[{place}].content[{number}]"
            raise InvalidInput(
                f'\'{field}\' is not a text part; only {{"type": "text"}} is understood here.', field=field
            )
        check_text(text, f"messages[{place}].content[{number}]")
        texts.append(text)
    return Turn(message.role, "\n".join(texts), extra)
