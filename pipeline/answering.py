"""The story of one request; read it beside the drawing in ARCHITECTURE.md.

          ┌─ lexical search ─────────────────────────┐
query ────┤                                          ├─ fuse ─┬─ rerank within its allowance ──┐
          └─ encode (cached, batched) ─ dense search ┘        ├─ group near-duplicates ────────┤─ pack ─ prompt ─ stream
                                                              └─ count what fits (precomputed) ┘
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.clock import Clock, Stage
from pipeline.passages import Candidates, Context, Groups, Prompt, Query, Ranking, Sizes, Token
from pipeline.ports import Generator, Grouper, Packer, Prompter, Reranker, Retriever, Sizer

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Found:
    """What a query led to: the candidates, their order, and what of them is worth reading."""

    candidates: Candidates
    ranking: Ranking
    context: Context


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that has begun. `first` is None when the generator had nothing to say; `tokens` are those after it."""

    found: Found
    prompt: Prompt
    first: Token | None
    tokens: AsyncGenerator[Token, None]


@dataclass(frozen=True, slots=True)
class Answering:
    """The stages in the order of a request."""

    retriever: Retriever
    reranker: Reranker
    grouper: Grouper
    sizer: Sizer
    packer: Packer
    prompter: Prompter

    async def find(self, query: Query, clock: Clock) -> Found:
        """Retrieves and packs. Raises OutOfTime or Overloaded only when no search leg answered."""
        candidates = await self.retriever.retrieve(query, clock)
        ranking, groups, sizes = await self._side_by_side(query, candidates, clock)
        with clock.split(Stage.PACK):
            context = self.packer.pack(query, candidates, ranking, groups, sizes)
        return Found(candidates, ranking, context)

    @asynccontextmanager
    async def answer(
        self, query: Query, found: Found, generator: Generator, clock: Clock
    ) -> AsyncGenerator[Answer, None]:
        """Begins an answer: the first token is awaited before anything is sent, so that a late one is a true 504."""
        with clock.split(Stage.PROMPT):
            prompt = self.prompter.prompt(query, found.context)
        async with aclosing(generator.generate(prompt)) as tokens:
            async with clock.lap(Stage.FIRST_TOKEN):
                first = await anext(tokens, None)
            yield Answer(found, prompt, first, tokens)

    async def _side_by_side(self, query: Query, candidates: Candidates, clock: Clock) -> tuple[Ranking, Groups, Sizes]:
        return await together(
            self.reranker.rerank(query, candidates, clock),
            self.grouper.group(query, candidates, clock),
            self.sizer.size(query, candidates, clock),
        )


async def together(a: Coroutine[Any, Any, A], b: Coroutine[Any, Any, B], c: Coroutine[Any, Any, C]) -> tuple[A, B, C]:
    """Runs three coroutines at the same time; the first failure cancels the others and is raised as itself.

    (A TaskGroup that is cancelled holds itself, and the whole request with it, until the garbage collector comes.)
    """
    tasks = asyncio.create_task(a), asyncio.create_task(b), asyncio.create_task(c)
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
