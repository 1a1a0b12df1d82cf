"""Queries to vectors: cached, computed once for all who ask for the same at the same time, batched across requests.

About nine tenths of a retrieval is this call, so the cheapest one is the one not made.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.batching import BatchingLane, BatchingOptions, Place
from pipeline.clock import Lap

Vector = NDArray[np.float32]
Ticket = Place[str, Vector]


@dataclass(frozen=True, slots=True)
class QueryEncoderOptions:
    """`cached` vectors are kept (1.5 kB each at 384 dimensions), 0 for none; `line` texts at most wait, and
    with `foresight` none that would be late.

    `batch_tokens` bounds the padded tokens of one run. On a CPU four queries of 12 tokens cost 6.2 ms each together
    against 11.5 alone, and from 64 tokens on nothing is gained, so 64; a GPU wants 4,096 or so.
    """

    cached: int = 10_000
    line: int = 128
    batch_tokens: int = 64
    foresight: bool = True


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Texts asked for since start: found in the cache, joined to a run under way, or computed."""

    hits: int
    joined: int
    computed: int
    entries: int


class TextEncoder(Protocol):
    """What is asked of an encoder; OnnxEncoder is one. `max_tokens` is where it cuts a text."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    def tokenize(self, text: str) -> list[int]: ...
    def encode_ids(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]: ...


class Flight:
    """A text that is being encoded, and how many wait for it."""

    __slots__ = ("ticket", "waiters")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.waiters = 0


class QueryEncoder:
    """Opened with `with`. Belongs to one event loop; its encoder belongs to its one thread.

    The cache is exact (the very text) and lives and dies with the encoder, so a vector of another model is never in it.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        options: QueryEncoderOptions | None = None,
        *,
        permits: AbstractContextManager[object] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.options = options or QueryEncoderOptions()
        self._encoder = encoder
        self._now = now
        self._lane: BatchingLane[str, Vector] = BatchingLane(
            BatchingOptions("encode", self.options.line, self.options.batch_tokens, self.options.foresight),
            self._compute,
            self._size,
            permits=permits,
            now=now,
        )
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._flying: dict[str, Flight] = {}
        self._hits = self._joined = self._computed = 0

    def __enter__(self) -> QueryEncoder:
        self._lane.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._lane.__exit__()

    @property
    def fingerprint(self) -> str:
        """The embedder that a generation must come from."""
        return self._encoder.fingerprint

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._encoder.dimensions

    @property
    def counts(self) -> CacheCounts:
        """What the cache has been worth so far."""
        return CacheCounts(self._hits, self._joined, self._computed, len(self._cache))

    @property
    def waiting(self) -> int:
        """Texts in line."""
        return self._lane.waiting

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        """Seconds in line that a new text has to expect."""
        return self._lane.expected_wait(priority, deadline)

    async def encode(self, texts: Sequence[str], lap: Lap) -> NDArray[np.float32]:
        """`[texts, dimensions] float32`, L2-normalised.

        Raises Overloaded when the line is full, or would come to these too late.
        """
        rows = [self._cached(text) for text in texts]
        missing = list(dict.fromkeys(text for text, row in zip(texts, rows, strict=True) if row is None))
        if missing:
            found = await self._fly(missing, lap)
            rows = [found[text] if row is None else row for text, row in zip(texts, rows, strict=True)]
        return np.stack([row for row in rows if row is not None])

    def _cached(self, text: str) -> Vector | None:
        row = self._cache.get(text)
        if row is not None:
            self._cache.move_to_end(text)
            self._hits += 1
        return row

    async def _fly(self, texts: list[str], lap: Lap) -> dict[str, Vector]:
        """Waits for texts that are not cached, boarding runs under way; leaves them all when it is cancelled."""
        joined = self._now()
        flights = self._board(texts, lap)
        try:
            # Shielded: a caller who leaves must not take away the result from those who share the flight.
            return {text: await asyncio.shield(flight.ticket.future) for text, flight in flights.items()}
        finally:
            begun = [flight.ticket.started for flight in flights.values()]
            latest = max(self._now() if started is None else started for started in begun)
            lap.waited += max(latest - joined, 0.0)
            for text, flight in flights.items():
                self._alight(text, flight)

    def _board(self, texts: list[str], lap: Lap) -> dict[str, Flight]:
        fresh = [text for text in texts if text not in self._flying]
        for text, ticket in zip(
            fresh, self._lane.join(fresh, lap.deadline, lap.priority) if fresh else (), strict=True
        ):
            self._flying[text] = Flight(ticket)
            ticket.future.add_done_callback(partial(self._landed, text))
        self._computed += len(fresh)
        self._joined += len(texts) - len(fresh)
        flights = {text: self._flying[text] for text in texts}
        for flight in flights.values():
            flight.waiters += 1
            self._lane.hasten(flight.ticket, lap.deadline, lap.priority)
        return flights

    def _alight(self, text: str, flight: Flight) -> None:
        flight.waiters -= 1
        if flight.waiters == 0 and not flight.ticket.future.done() and self._lane.leave(flight.ticket):
            self._flying.pop(text, None)

    def _landed(self, text: str, future: asyncio.Future[Vector]) -> None:
        """Keeps the vector even when everybody left while it was computed: the next who asks has it."""
        self._flying.pop(text, None)
        if future.cancelled() or future.exception() is not None or self.options.cached <= 0:
            return
        self._cache[text] = future.result()
        if len(self._cache) > self.options.cached:
            self._cache.popitem(last=False)

    def _compute(self, texts: Sequence[str]) -> list[Vector]:
        rows = self._encoder.encode_ids([self._encoder.tokenize(text) for text in texts])
        vectors = [row.copy() for row in rows]
        for vector in vectors:
            vector.setflags(write=False)
        return vectors

    def _size(self, text: str) -> int:
        """Tokens at a guess, without tokenising: four bytes make one, and two are special."""
        return min(len(text.encode(errors="replace")) // 4 + 2, self._encoder.max_tokens)
