"""Streams answers from vLLM, or any other server with OpenAI's `/v1/chat/completions`.

A connection is kept and reused when an answer was read to its end. When the reader leaves sooner, in prefill or among
the tokens, the connection is closed at once and never reused: that is how the server learns that it may stop
computing (vLLM: within 80 to 200 ms).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, TraceConfig

from generate.reading import AnswerReader
from generate.refusals import MISSING, refusal, unserved
from pipeline.errors import InvalidInput, Misconfigured, Overloaded, UpstreamFailed
from pipeline.passages import Prompt, Token

OK = 200
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """`base_url` as OpenAI clients take it (with or without `/v1`), `model` as the server lists it.

    `connections` answers are streamed at once and `line` more may wait for one; `keep_alive` is how long an idle
    connection is kept, in seconds, and must be less than the server keeps it (vLLM: 5). `inter_token_timeout` bounds
    the silence after the first token; the first token itself is bounded by the caller's lap.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    connections: int = 128
    line: int = 128
    keep_alive: float = 4.0
    connect_timeout: float = 2.0
    check_timeout: float = 2.0
    inter_token_timeout: float | None = 30.0

    @property
    def api(self) -> str:
        """The address below which `/chat/completions` and `/models` lie."""
        url = self.base_url.rstrip("/")
        return url if url.endswith("/v1") else url + "/v1"


class VllmGenerator:
    """Implements the Generator port; opened with `async with VllmGenerator.open(options)`."""

    def __init__(
        self, options: VllmOptions, session: ClientSession, *, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self.options = options
        self._session = session
        self._now = now
        self._places = asyncio.Semaphore(options.connections)
        self._running = 0
        self._typical = 0.0

    @classmethod
    @asynccontextmanager
    async def open(cls, options: VllmOptions) -> AsyncGenerator[VllmGenerator, None]:
        """Opens the connection pool and one connection in it. A server that is away is no error here: see `check`.

        Raises Misconfigured for an address that cannot be one.
        """
        if not options.base_url.startswith(("http://", "https://")):
            raise Misconfigured(
                f"The model server's address '{options.base_url}' is no HTTP address; "
                "it should look like http://127.0.0.1:8000/v1."
            )
        headers = {"Accept-Encoding": "identity"}
        if options.api_key is not None:
            headers["Authorization"] = f"Bearer {options.api_key}"
        async with ClientSession(
            connector=TCPConnector(limit=0, keepalive_timeout=options.keep_alive),
            cookie_jar=DummyCookieJar(),
            headers=headers,
            timeout=ClientTimeout(total=None, sock_connect=options.connect_timeout),
            trace_configs=[_tells_reuse()],
        ) as session:
            generator = cls(options, session)
            await generator.check()  # leaves one connection in the pool
            yield generator

    @property
    def running(self) -> int:
        """Answers being streamed or waiting for their first token, those in line included."""
        return self._running

    async def check(self) -> str | None:
        """Why the server could not answer now, as a sentence with the remedy and no address; None when it is ready."""
        options = self.options
        try:
            async with asyncio.timeout(options.check_timeout), self._session.get(f"{options.api}/models") as response:
                body = await response.read()
                status = response.status
            if status == MISSING:
                async with (
                    asyncio.timeout(options.check_timeout),
                    self._session.get(options.api.removesuffix("/v1") + "/health") as response,
                ):
                    return None if response.status == OK else f"Its /health answers {response.status}."
        except TimeoutError:
            return f"The model server did not answer within {options.check_timeout:g} s."
        except (ClientError, OSError) as error:
            return str(self._unreachable(error))
        if status != OK:
            return str(refusal(status, body, None, model=options.model, base_url=options.api))
        return unserved(body, model=options.model)

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        """Streams the answer; closing the generator closes the connection.

        Raises Overloaded when the line or the server is full, InvalidInput when the server does not take the request
        (a prompt too long), UpstreamFailed for everything else that goes wrong on its side.
        """
        async with self._place():
            response = await self._begin(prompt)
            with AnswerReader(response, silence=self.options.inter_token_timeout) as answer:
                while tokens := await answer.more():
                    for token in tokens:
                        yield token

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None, None]:
        options = self.options
        if self._running >= options.connections + options.line:
            raise Overloaded(
                f"{options.connections} answers are being streamed from the model server and {options.line} wait in "
                "line. Try again later, or raise connections if the model server has room.",
                retry_after=max(self._typical / options.connections, 0.001),
            )
        self._running += 1
        try:
            async with self._places:
                began = self._now()
                yield
                took = self._now() - began
                self._typical = took if self._typical == 0 else 0.9 * self._typical + 0.1 * took
        finally:
            self._running -= 1

    async def _begin(self, prompt: Prompt) -> ClientResponse:
        headers = {"Content-Type": "application/json", "Accept": EVENT_STREAM}
        if prompt.request_id:
            headers["X-Request-Id"] = prompt.request_id
        response = await self._post(self._body(prompt), headers)
        try:
            if response.status == OK and response.content_type == EVENT_STREAM:
                return response
            async with asyncio.timeout(self.options.check_timeout):
                said = await response.read()
        except (TimeoutError, ClientError, OSError):
            said = b""
        except BaseException:
            response.close()
            raise
        response.close()
        raise refusal(
            response.status,
            said,
            response.headers.get("Retry-After"),
            model=prompt.model or self.options.model,
            base_url=self.options.api,
        )

    async def _post(self, body: bytes, headers: dict[str, str]) -> ClientResponse:
        """Sends the request; once more when the pooled connection had died before anything came back on it."""
        try:
            return await self._send(body, headers)
        except _FoundDead:
            try:
                return await self._send(body, headers)
            except _FoundDead as error:
                raise self._unreachable(error.reason) from error

    async def _send(self, body: bytes, headers: dict[str, str]) -> ClientResponse:
        connection = SimpleNamespace(reused=False)
        try:
            return await self._session.post(
                f"{self.options.api}/chat/completions",
                data=body,
                headers=headers,
                allow_redirects=False,
                trace_request_ctx=connection,
            )
        except (ClientError, OSError) as error:
            if connection.reused:
                raise _FoundDead(error) from error
            raise self._unreachable(error) from error

    def _body(self, prompt: Prompt) -> bytes:
        given = prompt.sampling.get("stream_options")
        stream_options = cast("dict[str, object]", given) if isinstance(given, dict) else {}
        payload: dict[str, object] = {
            **prompt.sampling,
            "model": prompt.model or self.options.model,
            "messages": [{"role": turn.role, "content": turn.content, **turn.extra} for turn in prompt.messages],
            "stream": True,
            "stream_options": {**stream_options, "include_usage": True},
        }
        if prompt.priority:
            payload["priority"] = prompt.priority
        try:
            return json.dumps(payload, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"A field of the request is not JSON and cannot be passed on: {error}.") from error

    def _unreachable(self, error: BaseException) -> UpstreamFailed:
        reason = str(error) or type(error).__name__
        return UpstreamFailed(
            "The model server cannot be reached. Start it, or correct the address it is looked for at.",
            detail=f"{self.options.api}: {reason}",
        )


class _FoundDead(Exception):
    """A pooled connection broke before anything came back on it: as a rule it had died while it lay idle."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _tells_reuse() -> TraceConfig:
    async def reused(_: ClientSession, context: SimpleNamespace, __: object) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx.reused = True

    trace = TraceConfig()
    trace.on_connection_reuseconn.append(reused)
    return trace
