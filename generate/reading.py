"""Reads one streamed answer off its connection, to the end or to the reason why there is none.

Silence is watched by one timer for the whole answer, which looks at when bytes last came and sleeps again: a timer for
every token costs more than reading it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, cast

from aiohttp import ClientError, ClientResponse

from generate.alike import Alike
from generate.chunks import tokens_of
from generate.events import Event, EventReader, EventTooLarge
from pipeline.errors import UpstreamFailed
from pipeline.passages import Token

GOODBYE = 0.25  # seconds for the end of the body after [DONE]; a slower server loses the reuse of its connection


class AnswerReader:
    """Gives the tokens of a response as they arrive; `silence` bounds the wait for each after the first, in seconds.

    Used with `with`, which ends the watch and closes the connection, unless it went back to the pool.
    """

    def __init__(self, response: ClientResponse, *, silence: float | None) -> None:
        self._response = response
        self._content = response.content
        self._events = EventReader()
        self._alike = Alike()
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        self._since = inf
        self._silent = False
        self._done = False
        self._open: set[int] = set()
        self._finished = False
        self._failure: UpstreamFailed | None = None

    def __enter__(self) -> AnswerReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._response.close()

    async def more(self) -> list[Token]:
        """The tokens that came next, one or more; empty once the answer is complete and its body read to the end.

        All but the last of them have `more` set. Raises UpstreamFailed when the connection or the answer breaks off,
        after the tokens that came before.
        """
        tokens: list[Token] = []
        try:
            while not tokens and not self._done and self._failure is None:
                tokens = await self._next()
        except (ClientError, OSError) as error:
            raise self._broken(error) from error
        if tokens:
            if self._watch is None and self._silence is not None:
                self._watch = self._loop.call_later(self._silence, self._look, self._silence)
            if len(tokens) > 1:
                tokens[:-1] = [replace(token, more=True) for token in tokens[:-1]]
            return tokens
        if self._failure is not None:
            raise self._failure
        await self._say_goodbye()
        return tokens

    async def _next(self) -> list[Token]:
        self._since = self._loop.time()
        chunk = await self._content.readany()
        self._since = inf
        tokens: list[Token] = []
        try:
            for event in self._events.feed(chunk) if chunk else self._events.end():
                if event.done:
                    self._done = True
                    break
                token = None if event.name else self._alike.token(event.data)
                if token is None:
                    self._parse(event, tokens)
                else:
                    tokens.append(token)
        except UpstreamFailed as failure:
            self._failure = failure
        except EventTooLarge as error:
            self._failure = UpstreamFailed(f"The model server does not stream as it should: {error}")
        self._note(tokens)
        if not chunk and not self._done:
            self._done = True
            if self._failure is None and (self._open or not self._finished):
                self._failure = UpstreamFailed(
                    "The model server ended its answer without a finish_reason and without [DONE]: it is incomplete."
                )
        return tokens

    def _parse(self, event: Event, tokens: list[Token]) -> None:
        parsed = _tokens(event)
        tokens.extend(parsed)
        if len(parsed) == 1 and not event.name:
            self._alike.learn(event.data, parsed[0])

    def _look(self, silence: float) -> None:
        """Breaks the connection of a server that has been silent for too long, else looks again when it could be."""
        waited = max(self._loop.time() - self._since, 0.0)
        if waited < silence:
            self._watch = self._loop.call_later(silence - waited, self._look, silence)
        else:
            self._silent = True
            self._response.close()  # whoever waits for bytes is told so

    def _broken(self, error: BaseException) -> UpstreamFailed:
        if self._silent:
            return UpstreamFailed(f"The model server fell silent for {self._silence:g} s in the middle of its answer.")
        return UpstreamFailed(
            "The connection to the model server broke in the middle of its answer.", detail=_reason(error)
        )

    def _note(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            if token.finish_reason is not None:
                self._finished = True
                self._open.discard(token.index)
            elif token.delta:
                self._open.add(token.index)

    async def _say_goodbye(self) -> None:
        """Reads what follows the end mark, so that the connection is reused; gives that up if it lasts."""
        with suppress(TimeoutError, ClientError, OSError):
            async with asyncio.timeout(GOODBYE):
                while await self._content.readany():
                    pass


def _tokens(event: Event) -> list[Token]:
    try:
        chunk: object = json.loads(event.data)
        if isinstance(chunk, dict):
            return list(tokens_of(cast("dict[str, Any]", chunk), error=event.name == b"error"))
        reason = "a chunk is an object"
    except (ValueError, TypeError, AttributeError) as error:
        reason = str(error)
    beginning = event.data[:200].decode("utf-8", "replace")
    raise UpstreamFailed(
        "The model server sent an event that is no chat completion chunk.", detail=f"{reason}: {beginning!r}"
    )


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
