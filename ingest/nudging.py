"""Words over Redis: "something was accepted" for the workers, "this job has moved" for those who watch it.

Nothing is kept there that matters. Whoever hears nothing looks again after a while: the catalog is the truth.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (redis annotates its methods, and leaves their keyword arguments open)
from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from pipeline.errors import UpstreamFailed

ACCEPTED = "fleetfoot:accepted"
_JOB = "fleetfoot:job:"
_PATIENCE = 0.5  # seconds that a word may take; an answer never waits longer for it
_log = logging.getLogger(__name__)


class RedisNudge:
    """Implements `ports.Nudge`: one element in a list that a worker's sweep blocks on, however often it is called."""

    def __init__(self, client: AsyncRedis) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncGenerator[RedisNudge, None]:
        """Connects on first use, so that a broker that is away stops nobody."""
        async with _async_client(url) as client:
            yield cls(client)

    async def nudge(self) -> None:
        """Never raises for a broker that is away; the sweep recovers within seconds."""
        try:
            async with asyncio.timeout(_PATIENCE), self._client.pipeline(transaction=True) as pipe:
                pipe.lpush(ACCEPTED, "1")  # queued; sent by execute
                pipe.ltrim(ACCEPTED, 0, 0)
                await pipe.execute()
        except (RedisError, OSError, TimeoutError) as error:
            _log.warning("The workers could not be nudged (%s); their sweep will find what was accepted.", error)

    async def check(self) -> None:
        """Raises UpstreamFailed when the broker does not answer: what is accepted then waits for the next sweep."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._client.ping()
        except (RedisError, OSError, TimeoutError) as error:
            raise UpstreamFailed(
                f"Redis does not answer ({type(error).__name__}). Check FLEETFOOT_REDIS_URL."
            ) from error


class JobNotices:
    """Wakes up whoever watches a job."""

    def __init__(self, client: AsyncRedis, tick: float = 2.0) -> None:
        self._client = client
        self._tick = tick

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, tick: float = 2.0) -> AsyncGenerator[JobNotices, None]:
        """Connects on first use. `tick` is in seconds."""
        async with _async_client(url) as client:
            yield cls(client, tick)

    async def watch(self, job_id: str) -> AsyncGenerator[None, None]:
        """Yields once at the start, then whenever the job may have moved, and at each tick if Redis says nothing.

        Read the job from the catalog each time. Close with `aclosing`. Never raises for a broker that is away.
        """
        yield None
        async with self._client.pubsub(ignore_subscribe_messages=True) as words:
            subscribed = False
            while True:
                try:
                    if not subscribed:
                        await words.subscribe(_JOB + job_id)
                        subscribed = True
                        yield None  # it may have moved before we listened
                    heard = await words.get_message(timeout=self._tick)
                    while heard is not None:  # many words are one reason to look
                        heard = await words.get_message(timeout=0)
                except (RedisError, OSError) as error:
                    _log.debug("Redis tells nothing of the job %s: %s", job_id, error)
                    subscribed = False
                    await asyncio.sleep(self._tick)
                yield None


class Announcer:
    """What workers say, from their own process. Never raises for a broker that is away."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Generator[Announcer, None, None]:
        """Connects on first use; open it after the fork."""
        with Redis.from_url(url, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE) as client:
            yield cls(client)

    def moved(self, job_ids: Iterable[str]) -> None:
        """Tells those who watch these jobs, and the sweep, which may have more to do now."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for job_id in dict.fromkeys(job_ids):
                    pipe.publish(_JOB + job_id, "moved")
                pipe.lpush(ACCEPTED, "1")
                pipe.ltrim(ACCEPTED, 0, 0)
                pipe.execute()
        except (RedisError, OSError) as error:
            _log.warning("Progress could not be told (%s); those who watch look again by themselves.", error)


class Listener:
    """The sweep's end of the list."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    @classmethod
    @contextmanager
    def open(cls, url: str, wait: float) -> Generator[Listener, None, None]:
        """`wait` is the longest that `heard` will block, in seconds."""
        with Redis.from_url(url, socket_timeout=wait + 5, socket_connect_timeout=_PATIENCE) as client:
            yield cls(client)

    def heard(self, wait: float) -> bool:
        """Blocks until something was accepted or has moved, `wait` seconds at most. Raises RedisError when away."""
        return self._client.blpop([ACCEPTED], timeout=wait) is not None

    def waiting(self, queue: str) -> int:
        """How many messages lie in a Celery queue. Raises RedisError when Redis is away."""
        return self._client.llen(queue)


@asynccontextmanager
async def _async_client(url: str) -> AsyncGenerator[AsyncRedis, None]:
    client = AsyncRedis.from_url(url, socket_connect_timeout=_PATIENCE, socket_timeout=None)
    try:
        yield client
    finally:
        await client.aclose()
