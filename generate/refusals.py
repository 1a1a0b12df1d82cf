"""What a model server answers instead of a stream, as errors that say what to do about it."""

from __future__ import annotations

import json
from typing import Any, cast

from pipeline.errors import FleetfootError, InvalidInput, Overloaded, UpstreamFailed

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, MISSING, TOO_LARGE, UNPROCESSABLE = 400, 401, 403, 404, 413, 422
TOO_MANY, UNAVAILABLE = 429, 503


def refusal(status: int, body: bytes, retry_after: str | None, *, model: str, base_url: str) -> FleetfootError:
    """The error for a response that is no stream; `retry_after` is its header of that name.

    What the caller can mend (a prompt too long, a parameter that the server does not take) is InvalidInput and
    repeats the server's own words; a full server is Overloaded; the rest is UpstreamFailed. Where the server is, and
    what it said of itself, is for the operator: it stands in the error's `detail`.
    """
    said, param = what_was_said(body)
    detail = f"{base_url} answered {status}: {said}"
    if status in (BAD_REQUEST, TOO_LARGE, UNPROCESSABLE):
        return InvalidInput(
            f"The model server does not take this request: {said} "
            "If it is too long, lower token_budget or send fewer messages; otherwise change the parameter it names.",
            field=param,
        )
    if status in (TOO_MANY, UNAVAILABLE):
        return Overloaded(
            f"The model server is full or still loading ({status}). Try again later.",
            retry_after=seconds(retry_after),
            detail=detail,
        )
    if status == MISSING:
        return UpstreamFailed(
            f"The model server has no model '{model}'. Set the model to one that its /models lists.",
            status=status,
            detail=detail,
        )
    if status in (UNAUTHORIZED, FORBIDDEN):
        return UpstreamFailed(
            f"The model server refused the API key of this service ({status}). Set the key that it expects.",
            status=status,
            detail=detail,
        )
    return UpstreamFailed(
        f"The model server answered {status} instead of a stream. Try again; its own log, or this service's, says why.",
        status=status,
        detail=detail,
    )


def seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; None where there is none, or where it is a date (no model server sends one)."""
    try:
        return None if retry_after is None else max(float(retry_after), 0.0)
    except ValueError:
        return None


def what_was_said(body: bytes) -> tuple[str, str | None]:
    """The message of an error body, and the parameter that it blames; the body itself where it is no JSON."""
    try:
        parsed: object = json.loads(body)
    except ValueError:
        text = body.decode("utf-8", "replace").strip()
        return (text[:500] or "no reason given."), None
    if isinstance(parsed, dict):
        envelope = cast("dict[str, Any]", parsed)
        said = envelope.get("error", envelope)
        error = cast("dict[str, Any]", said) if isinstance(said, dict) else {"message": said}
        message = error.get("message") or envelope.get("detail") or "no reason given."
        param = error.get("param")
        return _sentence(str(message)), param if isinstance(param, str) else None
    return _sentence(str(parsed)), None


def unserved(models: bytes, *, model: str) -> str | None:
    """Why `model` cannot be had, from the body of `/v1/models`; None when it is listed there."""
    try:
        listed: Any = json.loads(models)
        known = [str(served["id"]) for served in listed["data"]]
    except (ValueError, TypeError, KeyError):
        return "The model server's /models does not answer as OpenAI's does; is its address right?"
    if model in known:
        return None
    return (
        f"The model server does not serve '{model}'; it serves: {', '.join(known[:10]) or 'nothing'}. "
        "Set the model to one of these."
    )


def _sentence(message: str) -> str:
    message = message.strip()
    return message if message.endswith((".", "!", "?")) else message + "."
