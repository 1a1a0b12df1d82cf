"""A chat request on its way through the stages, told at the end or as it goes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from starlette.responses import Response
from starlette.types import Send

from api.completions import CitationOut, Completion, ExtensionOut
from api.conversations import Asked, models_of
from api.errors import problem, unexpected
from api.events import ClientStalled, EventSender
from api.relaying import relay
from api.service import Inside
from api.timings import degraded_out, timings_out
from api.wire import dropped_out, passages_out, query_out
from context.citations import citations
from pipeline.answering import Answer, Found
from pipeline.clock import Budget
from pipeline.errors import FleetfootError, NotFound
from pipeline.passages import Degraded, Token

failures = logging.getLogger("fleetfoot.failures")


class Telling:
    """One chat request on its way through the stages."""

    def __init__(self, asked: Asked, here: Inside) -> None:
        self.asked = asked
        self.here = here
        self.visit = here.visit
        self.stages = here.stages
        self.completion = Completion(self.visit.id, asked.model, include_usage=asked.stream and asked.include_usage)
        self.clock = self.visit.clock(asked.query.profile.budget(asked.finding))

    async def whole(self) -> Response:
        """Everything at once."""

        async def take(token: Token) -> None:
            self.completion.add(token)

        found = await self._find()
        async with self._answering(found) as answer:
            self._first_token_came()
            cut = await self._relay(answer, take)
        body = self.completion.whole(self._extension(found, cut), cut=cut is not None)
        return Response(body, media_type="application/json")

    async def stream(self, send: Send) -> None:
        """Token by token. Raises until something was sent; from then on tells errors in the stream."""
        sender = EventSender(send, self.visit, self.here.behind.streams)
        try:
            with sender.pinging():
                await self._tell(sender)
        except ClientStalled as error:
            self.visit.code = error.code
        except FleetfootError as error:
            if not sender.started:
                raise
            told = problem(error)
            told.note(self.visit)
            await sender.failed(told)
        except Exception:
            if not sender.started:
                raise
            failures.exception("request %s failed in its stream", self.visit.id)
            self.visit.code = unexpected(self.visit).code
            await sender.failed(unexpected(self.visit))

    async def _tell(self, sender: EventSender) -> None:
        async def take(token: Token) -> None:
            chunk = self.completion.add(token)
            if chunk is not None:
                await sender.event(chunk, more=token.more)
            elif not token.more:
                await sender.flush()

        found = await self._find()
        if self.asked.stream_events:
            await sender.start()
            query = query_out(self.asked.query.text, self.asked.query.asides)
            chunk = self.completion.passages_chunk(passages_out(found), query, found.context.generation)
            await sender.event(chunk, "passages")
        async with self._answering(found) as answer:
            self._first_token_came()
            await sender.start()
            cut = await self._relay(answer, take, lambda: sender.waited)
        for chunk in self.completion.ends(self._extension(found, cut), cut=cut is not None):
            await sender.event(chunk)
        if self.asked.include_usage and self.completion.usage is not None:
            await sender.event(self.completion.usage_chunk())
        await sender.event(b"[DONE]")
        await sender.end()

    async def _find(self) -> Found:
        """Finds within its share of the deadline; what remains, and the rest, is for the first token."""
        try:
            found = await self.stages.answering.find(self.asked.query, self.clock)
        except NotFound as error:
            raise self._unknown_model(error) from error
        self.clock.budget = Budget(self.asked.first_token)
        self.visit.generation = found.context.generation
        self.visit.degraded.extend((*self.asked.eased, *found.context.degraded))
        return found

    def _answering(self, found: Found) -> AbstractAsyncContextManager[Answer]:
        return self.stages.answering.answer(self.asked.query, found, self.stages.generator, self.clock)

    def _first_token_came(self) -> None:
        self.visit.first_token = self.visit.elapsed()
        self.visit.met = self.visit.first_token <= self.asked.first_token

    async def _relay(
        self, answer: Answer, take: Callable[[Token], Awaitable[None]], waited: Callable[[], float] = float
    ) -> Degraded | None:
        return await relay(
            answer,
            self.clock,
            take,
            total=self.asked.total,
            inter_token=self.here.behind.streams.inter_token,
            waited=waited,
            metrics=self.here.behind.metrics,
        )

    def _extension(self, found: Found, cut: Degraded | None) -> ExtensionOut:
        """What is told beside the answer, once it is complete."""
        self.visit.completed = self.visit.elapsed()
        degraded = [*self.asked.eased, *found.context.degraded]
        if cut is not None:
            degraded.append(cut)
            self.visit.degraded.append(cut)
        passages = passages_out(found)
        by_number = {passage.number: passage for passage in passages}
        read = citations(self.completion.text, found.context)
        return ExtensionOut(
            request_id=self.visit.id,
            query=query_out(self.asked.query.text, self.asked.query.asides),
            generation=found.context.generation,
            profile=self.asked.profile,
            passages=passages,
            dropped=dropped_out(found),
            citations=[CitationOut.model_validate(by_number[number], from_attributes=True) for number in read.numbers],
            unknown_citations=sorted({mark.number for mark in read.unknown}),
            timings=timings_out(self.visit, self.clock),
            degraded=degraded_out(degraded),
        )

    def _unknown_model(self, error: NotFound) -> NotFound:
        """The same news in the words of whoever chose a model: what `model` could be."""
        if error.kind != "collection":
            return error
        return NotFound("model", self.asked.model, models_of(list(error.known), self.stages.profiles))
