"""Reads one streamed answer off its connection, to the end or to the reason why there is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from aiohttp import ClientError, ClientResponse

from generate.chunks import tokens_of
from generate.events import Event, EventReader, EventTooLarge
from pipeline.errors import UpstreamFailed
from pipeline.passages import Token

GOODBYE = 0.25  # seconds for the end of the body after [DONE]; a slower server loses the reuse of its connection


class AnswerReader:
    """Gives the tokens of a response as they arrive; `silence` bounds the wait for each after the first, in seconds."""

    def __init__(self, response: ClientResponse, *, silence: float | None) -> None:
        self._content = response.content
        self._events = EventReader()
        self._silence = silence
        self._begun = False
        self._done = False
        self._open: set[int] = set()
        self._finished = False
        self._failure: UpstreamFailed | None = None

    async def more(self) -> list[Token]:
        """The tokens that came next, one or more; empty once the answer is complete and its body read to the end.

        Raises UpstreamFailed when the connection or the answer breaks off, after the tokens that came before.
        """
        tokens: list[Token] = []
        try:
            async with asyncio.timeout(self._silence if self._begun else None):
                while not tokens and not self._done and self._failure is None:
                    tokens = await self._next()
        except TimeoutError:
            raise UpstreamFailed(
                f"The model server fell silent for {self._silence:g} s in the middle of its answer."
            ) from None
        except (ClientError, OSError) as error:
            raise UpstreamFailed(
                "The connection to the model server broke in the middle of its answer.",
                detail=_reason(error),
            ) from error
        if tokens:
            self._begun = True
            return tokens
        if self._failure is not None:
            raise self._failure
        await self._say_goodbye()
        return tokens

    async def _next(self) -> list[Token]:
        chunk = await self._content.readany()
        tokens: list[Token] = []
        try:
            for event in self._events.feed(chunk) if chunk else self._events.end():
                if event.done:
                    self._done = True
                    break
                tokens.extend(_tokens(event))
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
