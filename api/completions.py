"""Answers in OpenAI's shapes: whole, and chunk by chunk, with fleetfoot's own field beside them.

The field is called `fleetfoot`. A whole answer carries it at its top; a stream in the chunk with the last
`finish_reason`, which plain clients read anyway, so that they never see a chunk without choices that they did not ask
for. Chunks of a stream share all but the choice, so the rest is encoded once.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError, to_json

from api.timings import DegradedOut, TimingsOut
from api.wire import Dropped, PassageOut, QueryOut
from pipeline.passages import Token, Usage


class CitationOut(BaseModel):
    """A source that the answer cites, as [number]."""

    number: int
    id: str
    document_id: str
    title: str
    heading: list[str]
    page: int | None
    source: str


class ExtensionOut(BaseModel):
    """What fleetfoot adds to an answer."""

    request_id: str
    query: QueryOut
    generation: str
    profile: str
    passages: list[PassageOut] = Field(description="What the answer may rest on.")
    dropped: Dropped
    citations: list[CitationOut] = Field(description="What it does rest on, by its own marks, in their order.")
    unknown_citations: list[int] = Field(default=[], description="Numbers it cites that no passage has.")
    timings: TimingsOut
    degraded: list[DegradedOut]


class ChoiceOut(BaseModel):
    """One answer."""

    model_config = ConfigDict(extra="allow")

    index: int
    message: dict[str, Any]
    finish_reason: str | None


class CompletionOut(BaseModel):
    """An OpenAI chat completion."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[ChoiceOut]
    usage: dict[str, Any] | None
    fleetfoot: ExtensionOut


class Completion:
    """One answer as it grows; both the stream and the whole are read from it."""

    def __init__(self, request_id: str, model: str, *, include_usage: bool = False) -> None:
        self.id = f"chatcmpl-{request_id}"
        self.model = model
        self.created = int(time.time())
        self.usage: Usage | None = None
        self._messages: dict[int, dict[str, Any]] = {}
        self._said: defaultdict[int, list[str]] = defaultdict(list)  # of text only, not yet part of its message
        self._finished: dict[int, str] = {}
        self._logprobs: dict[int, dict[str, Any]] = {}
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": model}
        self._head = to_json(head)[:-1] + (b',"usage":null' if include_usage else b"") + b',"choices":['

    @property
    def text(self) -> str:
        """All that was said, over all choices: what citations are read from."""
        self._settle()
        return "\n".join(str(message.get("content") or "") for message in self._messages.values())

    def add(self, token: Token) -> bytes | None:
        """Takes a token in; returns its chunk, or None where it says nothing (a count, a mere end)."""
        if token.usage is not None:
            self.usage = token.usage
        if token.finish_reason is not None:
            self._finished[token.index] = token.finish_reason
        if not token.delta and token.logprobs is None:
            return None
        delta: Mapping[str, object] = token.delta
        message = self._messages.get(token.index)
        if token.raw and message is not None:  # nothing but text, and as the upstream wrote it
            self._said[token.index].append(token.text)
            return b'%b{"index":%d,"delta":{"content":%b},"finish_reason":null}]}' % (
                self._head,
                token.index,
                token.raw,
            )
        self._settle()
        if message is None:
            message = self._messages[token.index] = {"role": "assistant", "content": ""}
            delta = {"role": "assistant", **delta}
        _merge(message, token.delta)
        choice: dict[str, object] = {"index": token.index, "delta": delta, "finish_reason": None}
        if token.logprobs is not None:
            _merge(self._logprobs.setdefault(token.index, {}), token.logprobs)
            choice["logprobs"] = token.logprobs
        return self._head + _json(choice) + b"]}"

    def ends(self, extension: ExtensionOut, *, cut: bool) -> list[bytes]:
        """The chunks that end every choice, the extension in the last; a choice without an end was cut short."""
        chunks: list[bytes] = []
        indices = sorted({*self._messages, *self._finished}) or [0]
        for index in indices:
            reason = self._finished.get(index, "length" if cut else "stop")
            delta = {} if index in self._messages else {"role": "assistant", "content": ""}
            choice = to_json({"index": index, "delta": delta, "finish_reason": reason})
            chunks.append(self._head + choice + b"]")
        chunks[-1] += b',"fleetfoot":' + extension.model_dump_json().encode()
        return [chunk + b"}" for chunk in chunks]

    def usage_chunk(self) -> bytes:
        """The chunk that OpenAI sends last, without choices, when usage was asked for."""
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}
        return to_json({**head, "choices": [], "usage": self._usage()})

    def passages_chunk(self, passages: list[PassageOut], query: QueryOut, generation: str) -> bytes:
        """The data of the `passages` event: a chunk without choices, so that OpenAI clients can parse it."""
        found = {"passages": passages, "query": query, "generation": generation}
        return self._head + b'],"fleetfoot":' + to_json(found) + b"}"

    def whole(self, extension: ExtensionOut, *, cut: bool) -> bytes:
        """The complete answer."""
        self._settle()
        indices = sorted({*self._messages, *self._finished}) or [0]
        choices = [self._choice(index, cut) for index in indices]
        body = CompletionOut(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=choices,
            usage=self._usage(),
            fleetfoot=extension,
        )
        return _whole_json(body)

    def _settle(self) -> None:
        for index, texts in self._said.items():
            self._messages[index]["content"] += "".join(texts)
        self._said.clear()

    def _choice(self, index: int, cut: bool) -> ChoiceOut:
        message = dict(self._messages.get(index, {"role": "assistant", "content": ""}))
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{name: part for name, part in call.items() if name != "index"} for call in calls]
            message["content"] = message["content"] or None
        reason = self._finished.get(index, "length" if cut else "stop")
        choice: dict[str, Any] = {"index": index, "message": message, "finish_reason": reason}
        return ChoiceOut(**choice, logprobs=self._logprobs.get(index))  # type: ignore[call-arg]  # an extra field

    def _usage(self) -> dict[str, Any] | None:
        if self.usage is None:
            return None
        counted: dict[str, Any] = {
            "prompt_tokens": self.usage.prompt,
            "completion_tokens": self.usage.completion,
            "total_tokens": self.usage.prompt + self.usage.completion,
        }
        if self.usage.cached is not None:
            counted["prompt_tokens_details"] = {"cached_tokens": self.usage.cached}
        return counted


def _json(choice: dict[str, object]) -> bytes:
    """Some servers cut a character in two, and only escapes can pass such a half on."""
    try:
        return to_json(choice, inf_nan_mode="null")
    except PydanticSerializationError:
        return json.dumps(choice).encode()


def _whole_json(body: CompletionOut) -> bytes:
    try:
        return body.model_dump_json().encode()
    except PydanticSerializationError:
        return json.dumps(body.model_dump(mode="python"), default=str).encode()


def _merge(whole: dict[str, Any], delta: Mapping[str, object]) -> None:
    """Adds a delta to what it is a delta of: texts are joined, lists by their members' `index`, else appended."""
    for name, value in delta.items():
        before = whole.get(name)
        if isinstance(value, str) and isinstance(before, str) and name not in {"id", "type", "role"}:
            whole[name] = before + value
        elif isinstance(value, dict):
            inner = cast("dict[str, Any]", before if isinstance(before, dict) else {})
            _merge(inner, cast("dict[str, object]", value))
            whole[name] = inner
        elif isinstance(value, list):
            members: list[Any] = [*before] if isinstance(before, list) else []
            _merge_list(members, cast("list[object]", value))
            whole[name] = members
        elif value is not None:
            whole[name] = value


def _merge_list(members: list[Any], new: list[object]) -> None:
    for value in new:
        if not isinstance(value, dict) or "index" not in value:
            members.append(value)
            continue
        piece = cast("dict[str, object]", value)
        known = next((member for member in members if member["index"] == piece["index"]), None)
        if known is None:
            known = {"index": piece["index"]}
            members.append(known)
        _merge(known, {name: part for name, part in piece.items() if name != "index"})
