"""Queries to vectors: known before, computed once for all who ask the same at the same time, batched across requests.

About nine tenths of a retrieval is this call, so the cheapest one is the one not made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.batching import BatchingLane, BatchingOptions
from pipeline.caching import CacheCounts
from pipeline.clock import Lap
from pipeline.flights import Flights
from retrieve.vector_cache import NAME, Vector, VectorCache


@dataclass(frozen=True, slots=True)
class QueryEncoderOptions:
    """`line` texts at most wait, and with `foresight` none that would be late. With `single_flight` those who ask for
    the same text at the same time share it.

    `batch_tokens` bounds the padded tokens of one run. On a CPU four queries of 12 tokens cost 6.2 ms each together
    against 11.5 alone, and from 64 tokens on nothing is gained, so 64; a GPU wants 4,096 or so.
    """

    line: int = 128
    batch_tokens: int = 64
    foresight: bool = True
    single_flight: bool = True


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


class QueryEncoder:
    """Opened with `with`. Belongs to one event loop; its encoder belongs to its one thread.

    What is `known` is not computed, and what was computed is known from then on, even when whoever asked has left.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        options: QueryEncoderOptions | None = None,
        *,
        known: VectorCache | None = None,
        permits: AbstractContextManager[object] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.options = options or QueryEncoderOptions()
        self._encoder = encoder
        self._lane: BatchingLane[str, Vector] = BatchingLane(
            BatchingOptions("encode", self.options.line, self.options.batch_tokens, self.options.foresight),
            self._compute,
            self._size,
            permits=permits,
            now=now,
        )
        self.counts = CacheCounts() if known is None else known.counts
        self._known = known
        self._flights: Flights[str, Vector] = Flights(
            self._lane, landed=self._keep, counts=self.counts, single=self.options.single_flight, now=now
        )

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
        wanted = list(dict.fromkeys(texts))
        found = await self._known_of(wanted, lap)
        missing = [text for text in wanted if text not in found]
        if missing:
            found |= await self._flights.take(missing, lap)
        return np.stack([found[text] for text in texts])

    async def _known_of(self, texts: Sequence[str], lap: Lap) -> dict[str, Vector]:
        known = self._known
        if known is None:
            return {}
        found = known.of(texts)
        missing = [text for text in texts if text not in found and text not in self._flights]
        if missing and known.shared:
            found |= await known.fetch(missing, lap)
            found |= known.of([text for text in missing if text not in found])  # computed by somebody else meanwhile
        lap.count_cache(NAME, len(found), len(texts))
        return found

    def _keep(self, text: str, vector: Vector) -> None:
        if self._known is not None:
            self._known.keep(text, vector)

    def _compute(self, texts: Sequence[str]) -> list[Vector]:
        rows = self._encoder.encode_ids([self._encoder.tokenize(text) for text in texts])
        vectors = [row.copy() for row in rows]
        for vector in vectors:
            vector.setflags(write=False)
        return vectors

    def _size(self, text: str) -> int:
        """Tokens at a guess, without tokenising: four bytes make one, and two are special."""
        return min(len(text.encode(errors="replace")) // 4 + 2, self._encoder.max_tokens)
