"""The second level in Redis: what one instance computed, the others need not."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (redis annotates its methods, and leaves their keyword arguments open)
from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from pipeline.errors import Misconfigured, UpstreamFailed
from pipeline.outages import Outage
from pipeline.ports import SecondLevel
from pipeline.second_level import GuardedLevel

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_second_level(
    url: str | None, options: RedisCacheOptions | None = None
) -> AsyncGenerator[SecondLevel | None, None]:
    """A second level that nobody waits for, or none where no address is given."""
    if url is None:
        yield None
        return
    async with RedisCache.open(url, options) as cache:
        yield GuardedLevel(cache)


@dataclass(frozen=True, slots=True)
class RedisCacheOptions:
    """Values are kept for `seconds`, under keys that begin with `prefix`, which names the format of what is kept.

    `line` values wait to be written at most, `batch` of them go in one round trip; what is more is dropped. After a
    write that failed the next waits `rest` seconds. `patience` bounds connecting and writing, in seconds.
    """

    seconds: int = 86_400
    prefix: bytes = b"fleetfoot:cache:1:"
    line: int = 2_000
    batch: int = 200
    rest: float = 1.0
    patience: float = 0.5


class RedisCache:
    """Implements SecondLevel. Use it behind `pipeline.second_level.GuardedLevel`, which bounds and verifies.

    Keys are digests and values are numbers: neither query nor passage can be read there.
    """

    def __init__(self, client: Redis, options: RedisCacheOptions) -> None:
        self.options = options
        self.dropped = 0
        self._client = client
        self._line: dict[bytes, bytes] = {}
        self._work = asyncio.Event()
        self._outage = Outage(log, "What was computed cannot be put into the shared cache")

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, options: RedisCacheOptions | None = None) -> AsyncGenerator[RedisCache, None]:
        """Connects on first use, so that a Redis that is away stops nobody; what is in line at the end is lost.

        Raises Misconfigured for an address that is none.
        """
        opened = options or RedisCacheOptions()
        try:
            client = Redis.from_url(
                url,
                retry=Retry(NoBackoff(), 0),  # whoever waits has a few milliseconds
                socket_connect_timeout=opened.patience,
                socket_timeout=opened.patience,
            )
        except ValueError as error:
            raise Misconfigured(f"FLEETFOOT_CACHE_REDIS_URL is not the address of a Redis: {error}.") from None
        try:
            cache = cls(client, opened)
            writing = asyncio.create_task(cache._write())
            try:
                yield cache
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
        finally:
            await client.aclose()

    @property
    def waiting(self) -> int:
        """Values in line to be written."""
        return len(self._line)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Implements SecondLevel, in one round trip."""
        try:
            found = await self._client.mget([self.options.prefix + key for key in keys])
        except RedisError as error:
            raise ConnectionError(f"Redis does not answer ({type(error).__name__})") from error
        return [value if isinstance(value, bytes) else None for value in found]

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Implements SecondLevel."""
        for key, value in items.items():
            if len(self._line) >= self.options.line and key not in self._line:
                self.dropped += 1
            else:
                self._line[key] = value
        self._work.set()

    async def _write(self) -> None:
        while True:
            await self._work.wait()
            batch = [(key, self._line.pop(key)) for key in list(self._line)[: self.options.batch]]
            if not batch:
                self._work.clear()
                continue
            try:
                async with self._client.pipeline(transaction=False) as pipe:
                    for key, value in batch:
                        pipe.set(self.options.prefix + key, value, ex=self.options.seconds)  # queued; sent by execute
                    await pipe.execute()
            except (RedisError, OSError) as error:
                self.dropped += len(batch)
                self._outage.failed(UpstreamFailed(f"Redis does not take it ({type(error).__name__}: {error})"))
                await asyncio.sleep(self.options.rest)
            else:
                self._outage.over()
