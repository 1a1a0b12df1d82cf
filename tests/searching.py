"""A retriever over small generations, without a model, and the ports around it as small classes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pipeline.errors import NotFound
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Aside, Caller, Leg, Query
from pipeline.ports import GenerationRef
from pipeline.profile import Profile, Search
from retrieve.generation import Generation
from retrieve.hybrid import HybridOptions, HybridRetriever
from retrieve.query_encoder import QueryEncoder, QueryEncoderOptions
from retrieve.segment import OpenSegments
from retrieve.serving import Generations
from retrieve.vector_cache import VectorCache
from tests.fakes_encoder import FakeEncoder
from tests.generations import DIMENSIONS, EMBEDDER


@dataclass
class FakeCurrent:
    """Implements CurrentGeneration and EarlierGenerations.

    A test publishes by setting `refs`, None for a collection without a generation; `kept` are of the default tenant.
    """

    refs: dict[tuple[str, str], GenerationRef | None] = field(default_factory=dict)
    kept: list[GenerationRef] = field(default_factory=list)
    asked: int = 0

    def current(self, tenant: str, collection: str) -> GenerationRef | None:
        self.asked += 1
        if (tenant, collection) not in self.refs:
            raise NotFound("collection", collection, [name for of, name in self.refs if of == tenant])
        return self.refs[tenant, collection]

    def earlier(self, tenant: str, collection: str, before: int) -> tuple[GenerationRef, ...]:
        found = [ref for ref in self.kept if ref.collection == collection and ref.number < before]
        return tuple(sorted(found, key=lambda ref: -ref.number)) if tenant == "default" else ()


@dataclass
class Searching:
    """A retriever with everything that it stands on."""

    retriever: HybridRetriever
    generations: Generations
    current: FakeCurrent
    encoder: FakeEncoder
    lexical: Lane
    dense: Lane
    opening: Lane


@contextmanager
def searching(
    *refs: GenerationRef, line: int = 64, options: HybridOptions | None = None, cached: int = 0
) -> Iterator[Searching]:
    """Serves the generations to the default tenant."""
    encoder = FakeEncoder()
    known = VectorCache.open(EMBEDDER, DIMENSIONS, entries=cached) if cached else None
    current = FakeCurrent({("default", ref.collection): ref for ref in refs})
    with (
        Lane(LaneOptions("lexical", line=line)) as lexical,
        Lane(LaneOptions("dense", line=line)) as dense,
        Lane(LaneOptions("opening")) as opening,
        QueryEncoder(encoder, QueryEncoderOptions(line=line), known=known) as queries,
    ):
        shared = OpenSegments()

        def opened(ref: GenerationRef) -> Generation:
            return Generation.open(ref, embedder=EMBEDDER, shared=shared)

        generations = Generations(current, opened, earlier=current, opening=opening, searching=dense)
        retriever = HybridRetriever(generations, queries, lexical=lexical, dense=dense, options=options)
        yield Searching(retriever, generations, current, encoder, lexical, dense, opening)
        encoder.gate.set()


async def until(condition: Callable[[], bool]) -> None:
    """Lets other threads work until the condition holds; fails after some ten seconds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("what was waited for did not happen")


def query(
    text: str, *collections: str, asides: tuple[Aside, ...] = (), tenant: str = "default", **search: object
) -> Query:
    """Asks the handbook, unless collections are named; `search` overrides fields of the profile's search."""
    profile = replace(Profile(), search=replace(Search(), **search))
    return Query(text, Caller(tenant), collections or ("handbook",), profile, asides)


LEXICAL_ONLY = (Leg.LEXICAL,)
DENSE_ONLY = (Leg.DENSE,)
