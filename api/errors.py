"""The one table from what can go wrong to what HTTP says about it, in OpenAI's envelope.

    {"error": {"message": "what happened, and the remedy", "type": "…", "param": "where" | null, "code": "stable_word"}}

Clients such as the openai package retry by themselves. Where waiting helps they are told how long; where it would not,
`x-should-retry: false` tells them to stop.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.visits import Visit, visit_of
from pipeline.errors import (
    Conflict,
    Damaged,
    FleetfootError,
    InvalidInput,
    Misconfigured,
    NoLongerKept,
    NotAllowed,
    NotFound,
    OutOfTime,
    Overloaded,
    QuotaUsedUp,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unparsable,
    UpstreamFailed,
    WrongFingerprint,
)
from pipeline.filters import AND, OR, Op

STATUS: dict[type[FleetfootError], int] = {
    InvalidInput: 400,
    Unparsable: 422,
    TooLarge: 413,
    NotFound: 404,
    NoLongerKept: 410,
    Conflict: 409,
    NotAllowed: 403,
    Unauthenticated: 401,
    OutOfTime: 504,
    Overloaded: 503,
    QuotaUsedUp: 429,
    Unavailable: 503,
    UpstreamFailed: 502,
    Damaged: 503,
    WrongFingerprint: 503,
    Misconfigured: 500,
}
KIND = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
UPSTREAM_BLAMES_THE_REQUEST = frozenset({400, 404, 413, 422})
UPSTREAM_IS_FULL = frozenset({429, 503})
PARTS = frozenset({"body", "query", "path", "header"})
BRANCHES = frozenset({"str", "int", "float", "bool", AND, OR, *Op})
UNEXPECTED = "Something unexpected went wrong here. It is in the log under this request's id"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a client sees it, but for `detail`, which only the log has.

    `retry_after` is in seconds; `hopeless` tells that waiting would not help.
    """

    status: int
    message: str
    code: str
    param: str | None = None
    retry_after: float | None = None
    hopeless: bool = False
    detail: str = ""

    def envelope(self) -> dict[str, Any]:
        """The body, which is also the data of a stream's `error` event."""
        kind = KIND.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def body(self) -> bytes:
        """The envelope in ASCII: it may quote what was sent, and not all that JSON can say is Unicode."""
        return json.dumps(self.envelope()).encode()

    def headers(self) -> dict[str, str]:
        """Retry-After in whole seconds and, as the openai package reads it, exactly."""
        headers: dict[str, str] = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(ceil(self.retry_after), 1))
            headers["Retry-After-Ms"] = str(max(ceil(self.retry_after * 1000), 1))
        if self.hopeless:
            headers["X-Should-Retry"] = "false"
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers

    def note(self, visit: Visit) -> None:
        """Keeps the code for the log and the metrics, and for the log what the client is not told."""
        visit.code, visit.detail = self.code, self.detail

    def response(self, visit: Visit) -> Response:
        """The response, noted."""
        self.note(visit)
        return Response(self.body(), self.status, self.headers(), "application/json")


def problem(error: FleetfootError) -> Problem:
    """What HTTP says about an error that was raised on purpose."""
    return replace(_told(error), detail=error.detail)


def unexpected(visit: Visit) -> Problem:
    """What a client is told of an error that nobody foresaw: where to look, and nothing from inside."""
    return Problem(500, f"{UNEXPECTED}: {visit.id}.", FleetfootError.code, hopeless=True)


def unusable(details: Sequence[ErrorDetails | dict[str, Any]]) -> Problem:
    """What was sent does not have the documented shape; names the first field that does not, and counts the rest.

    Of a field that may have several shapes every one is told of; the deepest is the one that was meant.
    """
    begins = _place(details[0]["loc"])[:1]
    same = [detail for detail in details if _place(detail["loc"])[:1] == begins]
    first = max(same, key=lambda detail: len(_place(detail["loc"])))
    place = _place(first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", message)
        where = f" at character {place[-1]}" if place else ""
        return Problem(400, f"The body is not JSON: {reason}{where}.", "invalid_request", "body")
    if not place and first["type"] in {"model_attributes_type", "model_type"}:
        sentence = "The body must be a JSON object, sent with 'Content-Type: application/json'."
        return Problem(400, sentence, "invalid_request", "body")
    field = _path(place) or "body"
    others = f" ({len(details) - 1} more like this.)" if len(details) > 1 else ""
    sentence = (
        f"'{field}': {message[:1].lower()}{message[1:].rstrip('.')}. See /openapi.json for what it may be.{others}"
    )
    return Problem(400, sentence, "invalid_request", field)


async def on_fleetfoot_error(request: Request, error: Exception) -> Response:
    """Errors raised on purpose, wherever in a route."""
    if not isinstance(error, FleetfootError):
        raise error
    return problem(error).response(visit_of(request))


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """Bodies and parameters that do not have the documented shape."""
    if not isinstance(error, RequestValidationError):
        raise error
    return unusable(error.errors()).response(visit_of(request))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What the framework raises: unknown addresses and methods, and whatever broke while the body was read."""
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error.__cause__, FleetfootError):
        return problem(error.__cause__).response(visit_of(request))
    words = {
        404: f"There is nothing at {request.method} {request.url.path}. GET / lists what there is.",
        405: f"{request.url.path} does not know {request.method}. See /openapi.json for what it knows.",
        400: "The body could not be read: it ended early or is not valid UTF-8 JSON. Send it again.",
    }
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    message = words.get(error.status_code, str(error.detail))
    found = Problem(error.status_code, message, "invalid_request" if error.status_code == 400 else code)
    response = found.response(visit_of(request))
    response.headers.update(dict(error.headers or {}))
    return response


def _told(error: FleetfootError) -> Problem:
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    message, code = str(error), error.code
    match error:
        case InvalidInput():
            return Problem(status, message, code, error.field)
        case Overloaded():
            return Problem(status, message, code, None, error.retry_after, hopeless=error.retry_after is None)
        case NotFound():
            return Problem(status, message, code, error.kind)
        case Unavailable():
            return Problem(status, message, code, retry_after=error.retry_after)
        case UpstreamFailed() if error.status in UPSTREAM_BLAMES_THE_REQUEST:
            return Problem(400, message, code)
        case UpstreamFailed() if error.status in UPSTREAM_IS_FULL:
            return Problem(503, message, code, retry_after=1.0)
        case UpstreamFailed():
            return Problem(status, message, code)
        case _:
            return Problem(status, message, code, hopeless=status >= 409)


def _place(loc: Sequence[int | str]) -> list[int | str]:
    """Where in what was sent: without FastAPI's name of the part, and pydantic's names of a union's branches."""
    inside = loc[1:] if loc and loc[0] in PARTS else loc
    return [part for part in inside if isinstance(part, int) or not (part in BRANCHES or "[" in part)]


def _path(place: Sequence[int | str]) -> str:
    """`documents[3].text`, as in the error of a stage."""
    path = ""
    for part in place:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
