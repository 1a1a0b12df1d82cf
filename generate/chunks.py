"""What an OpenAI-compatible server streams, chunk by chunk, as tokens.

Recorded from vLLM and from llama.cpp, which differ: vLLM's first chunk is `{"role": "assistant", "content": ""}` and
its `finish_reason` comes with the last text; llama.cpp's first `content` is null, its `finish_reason` has a chunk of
its own, and `timings` rides along. With speculative decoding one chunk carries several model tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pipeline.errors import UpstreamFailed
from pipeline.passages import Token, Usage

NOTHING: Mapping[str, Any] = {}
BLAMES_THE_REQUEST = frozenset({400, 404, 413, 422})


def tokens_of(chunk: Mapping[str, Any], *, error: bool = False) -> Iterator[Token]:
    """The tokens of one chunk; a chunk that carries nothing yet (a role, an empty text) gives none.

    Raises UpstreamFailed when the chunk is an error (or its event was named one), which servers send inside a stream
    that began well.
    """
    if error or chunk.get("error") is not None or chunk.get("object") == "error":
        raise failure_in_stream(chunk)
    usage = usage_of(chunk.get("usage"))
    choices: Sequence[Mapping[str, Any]] = chunk.get("choices") or ()
    last = len(choices) - 1
    for place, choice in enumerate(choices):
        said: Mapping[str, Any] = choice.get("delta") or NOTHING
        delta = {name: value for name, value in said.items() if value and name != "role"}
        finish_reason = choice.get("finish_reason")
        if delta or finish_reason:
            yield Token(
                text=delta.get("content", ""),
                delta=delta,
                index=choice.get("index", 0),
                finish_reason=finish_reason,
                usage=usage if place == last else None,
                logprobs=choice.get("logprobs"),
            )
    if usage is not None and not choices:
        yield Token(usage=usage)


def usage_of(usage: object) -> Usage | None:
    """The upstream's own count; None where it sends null, or leaves out a number."""
    if not isinstance(usage, dict):
        return None
    counted = cast("dict[str, Any]", usage)
    prompt, completion = counted.get("prompt_tokens"), counted.get("completion_tokens")
    if not isinstance(prompt, int) or not isinstance(completion, int):
        return None
    details: Mapping[str, Any] = counted.get("prompt_tokens_details") or NOTHING
    return Usage(prompt, completion, details.get("cached_tokens"))


def failure_in_stream(chunk: Mapping[str, Any]) -> UpstreamFailed:
    """An error event as the error that it is; both `{"error": {...}}` and the error object by itself are in use.

    The server's own words are repeated where it blames the request; else they are for the operator.
    """
    said = chunk.get("error", chunk)
    error = cast("dict[str, Any]", said) if isinstance(said, dict) else {"message": str(said)}
    code = error.get("code")
    status = code if isinstance(code, int) else None
    message = str(error.get("message") or "no reason given")
    told = f": {message}" if status in BLAMES_THE_REQUEST else "."
    return UpstreamFailed(f"The model server broke off its answer{told}", status=status, detail=message)
