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
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, cast

from aiohttp import (
    ClientError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)

from generate.reading import AnswerReader
from generate.refusals import MISSING, refusal, unserved
from pipeline.errors import InvalidInput, Misconfigured, UpstreamFailed
from pipeline.passages import Prompt, Token
from pipeline.places import Places, PlacesOptions

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.tracing import Trace

OK = 200
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """`base_url` as OpenAI clients take it (with or without `/v1`), `model` as the server lists it.

    `connections` answers are streamed at once and `line` more may wait for one, by their priority. With `priorities`
    it is sent on: vLLM refuses any but 0 unless it was started with `--scheduling-policy priority`. `keep_alive` is
    how long an idle connection is kept, in seconds, and must be less than the server keeps it (vLLM: 5).
    `inter_token_timeout` bounds the silence after the first token; the first token itself is bounded by the caller's
    lap.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    connections: int = 128
    line: int = 128
    priorities: bool = False
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
        self._places = Places(
            PlacesOptions("connections to the model server", options.connections, options.line), now=now
        )

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
            connector=Pool(limit=0, keepalive_timeout=options.keep_alive),
            cookie_jar=DummyCookieJar(),
            headers=headers,
            timeout=ClientTimeout(total=None, sock_connect=options.connect_timeout),
        ) as session:
            generator = cls(options, session)
            await generator.check()  # leaves one connection in the pool
            yield generator

    @property
    def running(self) -> int:
        """Answers being streamed or waiting for their first token, those in line included."""
        return self._places.held + self._places.waiting

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds until a connection is free for a newcomer, from how long answers typically take."""
        return self._places.expected_wait(priority, deadline)

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
        async with self._places.place(prompt.priority):
            response = await self._begin(prompt)
            with AnswerReader(response, silence=self.options.inter_token_timeout) as answer:
                while tokens := await answer.more():
                    for token in tokens:
                        yield token

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
        fresh.set(False)
        try:
            return await self._session.post(
                f"{self.options.api}/chat/completions",
                data=body,
                headers=headers,
                allow_redirects=False,
            )
        except (ClientError, OSError) as error:
            if not fresh.get():
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
        if prompt.priority and self.options.priorities:
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


fresh: ContextVar[bool] = ContextVar("fresh")  # whether this request made a connection of its own


class Pool(TCPConnector):
    """aiohttp's pool, which tells a request whether its connection is a new one.

    (aiohttp's own way, tracing, awaits a dozen empty signals in every request: 7 % of what a short one cost.)
    """

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109  as aiohttp has it
    ) -> ResponseHandler:
        fresh.set(True)
        return await super()._create_connection(req, traces, timeout)
