"""A model server without a model: real HTTP on a real socket, behaving as recorded from vLLM and from llama.cpp.

Tests open it with `async with FakeUpstream(Script(...)) as upstream`; by itself it runs as
`python -m tests.upstream --port 8000`. Its words are scripted; its streaming, usage, prefix cache, errors, metrics and
the way it notices that a client left are those of the servers it stands for. A token here is a word.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import uvloop
from aiohttp import web

BLOCK = 16  # tokens in one block of the prefix cache, as in vLLM on a GPU


class Form(StrEnum):
    """Whose habits the stream follows."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"


class Failure(StrEnum):
    """What goes wrong, if anything; the later ones happen after `fail_after` words."""

    NONE = "none"
    NO_ANSWER = "no_answer"  # the connection is closed before a byte was sent
    BUSY = "busy"  # 503 with Retry-After
    RATE_LIMITED = "rate_limited"  # 429 without it
    BROKEN = "broken"  # 500
    NOT_A_STREAM = "not_a_stream"  # 200 and a JSON body
    DIES = "dies"
    HANGS = "hangs"
    ERROR_EVENT = "error_event"
    GARBAGE = "garbage"
    TRUNCATED = "truncated"  # a clean end of the body, but no finish_reason and no [DONE]


@dataclass(frozen=True, slots=True)
class Script:
    """What the server says and when; durations in seconds, inf to wait until the client leaves.

    Where there are `permits`, every chunk after the first waits for one.
    """

    words: tuple[str, ...] = ("Shoes", " are", " kept", " in", " the", " blue", " box", ".")
    reasoning: tuple[str, ...] = ()
    tool_call: Mapping[str, str] | None = None
    form: Form = Form.VLLM
    model: str = "demo"
    before_first: float = 0.0
    per_uncached_token: float = 0.0
    between: float = 0.0
    permits: asyncio.Semaphore | None = None
    failure: Failure = Failure.NONE
    fail_after: int = 3
    retry_after: int = 7
    max_model_len: int = 4096
    words_per_chunk: int = 1
    api_key: str | None = None
    newline: str = "\n"
    done: bool = True


@dataclass(slots=True)
class Received:
    """One chat completion as the server lived through it; `left` is set when the client went away before its end."""

    payload: dict[str, Any]
    headers: Mapping[str, str]
    connection: int
    left: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    speaking: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)


class FakeUpstream:
    """`script` may be replaced between requests; `received` is every chat completion so far, in order of arrival.

    With `keeps` False nothing is kept of a request that is over, so that thousands of them cost no memory.
    """

    def __init__(self, script: Script | None = None, *, port: int = 0, keeps: bool = True) -> None:
        self.script = script or Script()
        self.port = port
        self.keeps = keeps
        self.received: list[Received] = []
        self.running = 0
        self.waiting = 0
        self.queried = 0
        self.hits = 0
        self._cache: set[int] = set()
        self._numbers: WeakKeyDictionary[asyncio.Transport, int] = WeakKeyDictionary()
        self._connections = 0
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeUpstream:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Goes away: open connections are closed, later ones refused."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """The base address as OpenAI clients take it."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def connections(self) -> int:
        """How many different sockets requests have come in on so far."""
        return self._connections

    def behave(self, **changes: Any) -> None:
        """Changes the script for the requests that come after."""
        self.script = replace(self.script, **changes)

    async def nth(self, number: int) -> Received:
        """The request of that number, counted from 0, as soon as it has come."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) > number)
        return self.received[number]

    def _number(self, request: web.Request) -> int:
        transport = request.transport
        if transport is not None and transport in self._numbers:
            return self._numbers[transport]
        if transport is not None:
            self._numbers[transport] = self._connections
        self._connections += 1
        return self._connections - 1

    async def _health(self, request: web.Request) -> web.Response:
        self._number(request)
        return web.Response()

    async def _models(self, request: web.Request) -> web.Response:
        self._number(request)
        served = {"id": self.script.model, "object": "model", "owned_by": self.script.form.value}
        return web.json_response({"object": "list", "data": [served]})

    async def _metrics(self, request: web.Request) -> web.Response:
        name = f'{{model_name="{self.script.model}"}}'
        return web.Response(
            text=f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{name} {self.running}\n"
            f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{name} {self.waiting}\n"
            f"# TYPE vllm:prefix_cache_queries counter\nvllm:prefix_cache_queries_total{name} {self.queried}\n"
            f"# TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total{name} {self.hits}\n"
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        payload = await request.json()
        received = Received(payload, request.headers.copy(), self._number(request))
        if self.keeps:
            async with self._arrived:
                self.received.append(received)
                self._arrived.notify_all()
        self.running += 1
        try:
            return await self._answer(request, received, self.script)
        except (asyncio.CancelledError, ConnectionResetError):
            received.left.set()
            raise
        finally:
            self.running -= 1
            received.finished.set()

    async def _answer(self, request: web.Request, received: Received, script: Script) -> web.StreamResponse:
        prompt = prompt_words(received.payload)
        if refused := refusal(script, received, len(prompt)):
            return refused
        if script.failure is Failure.NO_ANSWER:
            _abort(request)
            return web.Response()
        cached = self._prefix(prompt)
        headers = {"X-Request-Id": received.headers["X-Request-Id"]} if "X-Request-Id" in received.headers else {}
        if not received.payload.get("stream"):
            received.begun.set()
            await wait(script.before_first + script.per_uncached_token * (len(prompt) - cached))
            return web.json_response(whole(script, received, len(prompt), cached), headers=headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", **headers})
        if script.form is Form.VLLM:  # sends its headers at once; llama.cpp waits for the first token
            await response.prepare(request)
        received.begun.set()
        await wait(script.before_first + script.per_uncached_token * (len(prompt) - cached))
        if script.form is Form.LLAMA_CPP:
            await response.prepare(request)
        async for event in stream(script, received, len(prompt), cached):
            if event is Failure.DIES:
                _abort(request)
                return response
            await response.write(f"{event}{script.newline}{script.newline}".encode())
        await response.write_eof()
        return response

    def _prefix(self, prompt: list[str]) -> int:
        blocks: list[int] = []
        for end in range(BLOCK, len(prompt) + 1, BLOCK):
            blocks.append(hash((blocks[-1] if blocks else 0, *prompt[end - BLOCK : end])))
        known = sum(1 for _ in itertools.takewhile(self._cache.__contains__, blocks))
        if self.keeps:
            self._cache.update(blocks)
        self.queried += len(prompt)
        self.hits += known * BLOCK
        return known * BLOCK


def prompt_words(payload: Mapping[str, Any]) -> list[str]:
    """What the prompt's tokens are here: the words of its messages, in order."""
    return [word for message in payload["messages"] for word in f"{message['role']}: {message['content']}".split()]


def refusal(script: Script, received: Received, prompt: int) -> web.Response | None:
    """The JSON error that a request gets before any stream, if it gets one."""
    model = received.payload.get("model")
    if script.api_key and received.headers.get("Authorization") != f"Bearer {script.api_key}":
        return error_response(401, "Unauthorized", "Unauthorized")
    if model != script.model and script.form is Form.VLLM:
        return error_response(404, "NotFoundError", f"The model `{model}` does not exist.", "model")
    if prompt > script.max_model_len:
        words = f"This model's maximum context length is {script.max_model_len} tokens; the prompt has {prompt}."
        kind = "BadRequestError" if script.form is Form.VLLM else "exceed_context_size_error"
        return error_response(400, kind, words, "input_tokens" if script.form is Form.VLLM else None)
    match script.failure:
        case Failure.BUSY:
            return error_response(503, "ServiceUnavailable", "The queue is full.", retry_after=script.retry_after)
        case Failure.RATE_LIMITED:
            return error_response(429, "RateLimitError", "Too many requests.")
        case Failure.BROKEN:
            return error_response(500, "InternalServerError", "EngineCore encountered an issue.")
        case Failure.NOT_A_STREAM:
            return web.json_response({"choices": []})
        case _:
            return None


def error_response(
    status: int, kind: str, message: str, param: str | None = None, *, retry_after: int | None = None
) -> web.Response:
    """An error in OpenAI's envelope, as both servers send it."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return web.json_response(body, status=status, headers=headers)


async def stream(script: Script, received: Received, prompt: int, cached: int) -> AsyncIterator[str | Failure]:
    """The events of an answer, each without its blank line; Failure.DIES where the connection is to break."""
    llama = script.form is Form.LLAMA_CPP
    choices = range(int(received.payload.get("n") or 1))
    for index in choices:
        yield chunk(script, received, index, {"role": "assistant", "content": None if llama else ""})
    if llama:
        yield ": a comment, as servers send to keep a connection open"
    pieces, finish_reason = deltas(script, received)
    for place, delta in enumerate(pieces):
        if place == script.fail_after and script.failure in FAILS_LATE:
            match script.failure:
                case Failure.HANGS:
                    await wait(inf)
                case Failure.ERROR_EVENT:
                    error = {"message": "EngineCore died.", "type": "InternalServerError", "code": 500}
                    yield f"data: {json.dumps({'error': error})}"
                case Failure.GARBAGE:
                    yield 'data: {"choices": [{"index": 0, "delta": {"con'
                case _:
                    yield script.failure
            return
        if place:
            await wait(script.between)
            if script.permits is not None:
                await script.permits.acquire()
        for index in choices:
            last = place == len(pieces) - 1 and not llama
            yield chunk(script, received, index, delta, finish_reason if last else None)
        received.speaking.set()
    if llama:
        for index in choices:
            yield chunk(script, received, index, {}, finish_reason)
    if (received.payload.get("stream_options") or {}).get("include_usage"):
        completion = (len(script.reasoning) + len(script.words)) * len(choices)
        yield envelope(script, received, [], usage=usage(script, prompt, completion, cached))
    if script.done:
        yield "data: [DONE]"


FAILS_LATE = frozenset((Failure.DIES, Failure.HANGS, Failure.ERROR_EVENT, Failure.GARBAGE, Failure.TRUNCATED))


def deltas(script: Script, received: Received) -> tuple[list[dict[str, Any]], str]:
    """What the answer's chunks carry, and how it ends; `max_tokens` is obeyed."""
    limit = received.payload.get("max_tokens") or received.payload.get("max_completion_tokens") or inf
    spoken = [("reasoning", word) for word in script.reasoning] + [("content", word) for word in script.words]
    pieces: list[dict[str, Any]] = []
    kept = spoken[: int(min(limit, len(spoken)))]
    for kind, group in itertools.groupby(kept, key=lambda piece: piece[0]):
        words = [word for _, word in group]
        for start in range(0, len(words), script.words_per_chunk):
            name = "reasoning_content" if kind == "reasoning" and script.form is Form.LLAMA_CPP else kind
            pieces.append({name: "".join(words[start : start + script.words_per_chunk])})
    if script.tool_call is not None:
        call = {"index": 0, "id": "call-1", "type": "function", "function": dict(script.tool_call)}
        return [*pieces, {"tool_calls": [call]}], "tool_calls"
    return pieces or [{"content": ""}], "length" if len(kept) < len(spoken) else "stop"


def chunk(
    script: Script, received: Received, index: int, delta: Mapping[str, Any], finish_reason: str | None = None
) -> str:
    """One chunk with one choice in it."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return envelope(script, received, [choice])


def envelope(script: Script, received: Received, choices: list[Any], **more: Any) -> str:
    """A chunk as an event."""
    name = received.headers.get("X-Request-Id", "0")
    body = {"id": f"chatcmpl-{name}", "object": "chat.completion.chunk", "created": 0, "model": script.model}
    if script.form is Form.LLAMA_CPP:
        more["timings"] = {"prompt_ms": 1.0, "predicted_ms": 1.0}
    return f"data: {json.dumps({**body, 'choices': choices, **more}, ensure_ascii=False)}"


def usage(script: Script, prompt: int, completion: int, cached: int) -> dict[str, Any]:
    """The count that ends a stream, in words."""
    counted = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counted, "prompt_tokens_details": {"cached_tokens": cached}}


def whole(script: Script, received: Received, prompt: int, cached: int) -> dict[str, Any]:
    """The answer to a request that did not ask for a stream."""
    message = {"role": "assistant", "content": "".join(script.words)}
    return {
        "id": f"chatcmpl-{received.headers.get('X-Request-Id', '0')}",
        "object": "chat.completion",
        "created": 0,
        "model": script.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage(script, prompt, len(script.words), cached),
    }


async def wait(seconds: float) -> None:
    """Takes that long; for ever when it is inf, until the client leaves."""
    if seconds == inf:
        await asyncio.Event().wait()
    elif seconds:
        await asyncio.sleep(seconds)


def _abort(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


async def serve(arguments: argparse.Namespace) -> None:
    """Runs until it is interrupted. Clients that leave are what it is for, and no errors to tell of."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    script = Script(
        words=tuple(f" {word}" for word in arguments.text.split()),
        form=Form(arguments.form),
        model=arguments.model,
        before_first=arguments.before_first_ms / 1000,
        per_uncached_token=arguments.per_uncached_token_ms / 1000,
        between=arguments.between_ms / 1000,
        max_model_len=arguments.max_model_len,
    )
    async with FakeUpstream(script, port=arguments.port, keeps=not arguments.forgets) as upstream:
        print(f"serving '{script.model}' at {upstream.url}", flush=True)  # noqa: T201  the command's own output
        await asyncio.Event().wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A model server without a model.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--form", choices=[form.value for form in Form], default=Form.VLLM.value)
    parser.add_argument("--text", default="This is a scripted answer, one word after the other [1].")
    parser.add_argument("--before-first-ms", type=float, default=0.0)
    parser.add_argument("--per-uncached-token-ms", type=float, default=0.0)
    parser.add_argument("--between-ms", type=float, default=0.0)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--forgets", action="store_true", help="keep nothing of a request that is over")
    try:
        uvloop.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
