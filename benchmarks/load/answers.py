"""What an answer of the service tells of itself: laps, what was given up, the use of caches, tokens, passages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from benchmarks.load.recording import Lap, Reply, Tokens, Use

Json = Mapping[str, Any]


def of_retrieval(ended: float, body: bytes) -> Reply:
    """From a whole answer of /v1/retrieve, which was there at the instant `ended`."""
    (result,) = json.loads(body)["results"]
    return Reply(200, ended, **told(result))


def told(result: Json) -> dict[str, Any]:
    """The fields of a Reply that a retrieval's result and a chat's `fleetfoot` field tell alike."""
    timings = result["timings"]
    return {
        "degraded": tuple(f"{each['stage']}:{each['reason']}" for each in result["degraded"]),
        "laps": tuple(
            Lap(row["stage"], row["waited_ms"] / 1000, row["worked_ms"] / 1000)
            for row in cast("Sequence[Json]", timings["laps"])
        ),
        "uses": tuple(
            Use(name, use["hits"], use["asked"])
            for name, use in cast("Mapping[str, Json]", timings.get("caches") or {}).items()
        ),
        "found": sha256("\n".join(passage["id"] for passage in result["passages"]).encode()).hexdigest()[:8],
    }


def of_error(status: int, ended: float, body: bytes) -> Reply:
    """From the error envelope; what is none of the service's has the status as its problem."""
    return Reply(status, ended, problem=problem_of(body) or f"status_{status}")


def problem_of(body: bytes) -> str:
    """An error's code, empty where the body holds none."""
    error = _error(body)
    return str(error.get("code") or error.get("type") or "") if error else ""


def sentence_of(body: bytes) -> str:
    """The service's own sentence, or the beginning of whatever it sent."""
    error = _error(body)
    return str(error["message"]) if error and "message" in error else body[:300].decode(errors="replace")


class Stream:
    """A chat completion's events, as they come."""

    def __init__(self) -> None:
        self.first_event: float | None = None
        self.done = False
        self._chunks: list[float] = []
        self._problem = ""
        self._tokens: Tokens | None = None
        self._extension: Json | None = None

    def take(self, line: bytes, instant: float) -> None:
        """One line of the stream, which was there at that instant."""
        if not line.startswith(b"data:"):
            return
        self.first_event = instant if self.first_event is None else self.first_event
        data = line[5:].strip()
        if data == b"[DONE]":
            self.done = True
            return
        event = cast("Json", json.loads(data))
        if "error" in event:
            self._problem = problem_of(data) or "stream_error"
            return
        if any(says_something(choice.get("delta") or {}) for choice in event["choices"]):
            self._chunks.append(instant)
        if "timings" in (event.get("fleetfoot") or {}):
            self._extension = event["fleetfoot"]
        if usage := cast("Json | None", event.get("usage")):
            cached = cast("Json", usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            self._tokens = Tokens(usage["prompt_tokens"], usage["completion_tokens"], cached)

    def reply(self, ended: float) -> Reply:
        """What came of it; a stream without its end has broken off."""
        problem = self._problem or ("" if self.done else "broken_off")
        extension = told(self._extension) if self._extension is not None else {}
        return Reply(200, ended, problem, self.first_event, tuple(self._chunks), self._tokens, **extension)


def says_something(delta: Json) -> bool:
    """Whether a chunk carries text, reasoning or a tool call, and not a role alone."""
    return any(value for name, value in delta.items() if name != "role")


def _error(body: bytes) -> Json | None:
    try:
        read: object = json.loads(body)
    except ValueError:
        return None
    error = cast("Json", read).get("error") if isinstance(read, dict) else None
    return cast("Json", error) if isinstance(error, dict) else None
