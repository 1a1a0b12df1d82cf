"""A second level that cannot delay, fail or deceive a request, made of one that could."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from pipeline.errors import UpstreamFailed
from pipeline.outages import Outage
from pipeline.ports import SecondLevel

SUM = 16  # bytes of checksum before each value
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """`patience` is the most that a request waits for it, in seconds; after `failures` in a row it is left alone for
    `rest` seconds, and then tried by one request at a time until it answers.

    A request may have less patience than that; one that gives up after `soon` seconds or later counts as a failure.
    """

    patience: float = 0.005
    soon: float = 0.002
    failures: int = 5
    rest: float = 2.0


class GuardedLevel:
    """Implements SecondLevel around another: bounded in time, left alone while it fails, and verified.

    Each value travels behind a checksum of key and value, so that one that was cut, flipped, or put under another key
    is nobody's value. (Whoever may write there could still forge one: it wants as much trust as the broker.)
    """

    def __init__(
        self,
        behind: SecondLevel,
        options: GuardOptions | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options or GuardOptions()
        self.refused = 0
        self.failed = 0
        self._behind = behind
        self._now = now
        self._in_a_row = 0
        self._rests_until: float | None = None
        self._outage = Outage(log, "The shared cache does not answer in time; every instance keeps its own meanwhile")

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Never raises, and takes `patience` seconds at most."""
        nothing: list[bytes | None] = [None] * len(keys)
        if not keys or self._resting():
            return nothing
        began = self._now()
        try:
            async with asyncio.timeout(self.options.patience):
                found = await self._behind.get_many(keys)
        except asyncio.CancelledError as left:
            if self._now() - began >= self.options.soon:
                self._fails(left)
            raise
        except OSError as error:  # TimeoutError is one
            self._fails(error)
            return nothing
        self._in_a_row, self._rests_until = 0, None
        self._outage.over()
        if len(found) != len(keys):
            self.refused += 1
            return nothing
        return [None if value is None else self._opened(key, value) for key, value in zip(keys, found, strict=True)]

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Hands them over sealed; not while it rests."""
        if self._rests_until is None:
            self._behind.put_many({key: _sum(key, value) + value for key, value in items.items()})

    def _resting(self) -> bool:
        """True while it is left alone; the first who comes afterwards tries it, and the others go on without."""
        if self._rests_until is None:
            return False
        if self._now() < self._rests_until:
            return True
        self._rests_until = self._now() + self.options.rest
        return False

    def _fails(self, error: BaseException) -> None:
        self.failed += 1
        self._in_a_row += 1
        if self._in_a_row >= self.options.failures:
            self._rests_until = self._now() + self.options.rest
            self._outage.failed(UpstreamFailed(f"{type(error).__name__} {error}".rstrip()))

    def _opened(self, key: bytes, sealed: bytes) -> bytes | None:
        value = sealed[SUM:]
        if _sum(key, value) == sealed[:SUM]:
            return value
        self.refused += 1
        return None


def _sum(key: bytes, value: bytes) -> bytes:
    return blake2b(value, digest_size=SUM, key=key).digest()
