"""The files of one ingest on their way: what need not be sent is told apart, the rest goes in bounded requests.

Resuming is by content, not by memory: before files are sent, the service is asked which of them it has, or has
accepted, just so, by the sha256 of their bytes. So an ingest that was interrupted, here or on another machine, goes on
where it was, whatever was renamed or changed meanwhile, and there is no file of state that could be lost or wrong.
Within one run each request has a key of its own, so that one whose answer was lost is sent again without making a
second job.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fleetfoot.client import Client, Json, Refused
from fleetfoot.finding import Named, batches
from pipeline.errors import FleetfootError, InvalidInput, Misconfigured, UpstreamFailed

ASKED = 500  # files that are hashed and asked for together
TRIES = 30  # at a second's rest: longer than a restart takes
TOO_LARGE = 413
PASSING = frozenset({429, 503})  # statuses that time mends


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job that a request has made."""

    job: Json


@dataclass(frozen=True, slots=True)
class Earlier:
    """Files that need not be sent: published just so where `job` is None, else on their way in that job."""

    names: tuple[str, ...]
    job: str | None


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A file that is not taken: it cannot be read, or is over a limit."""

    name: str
    reason: str


Sent = Accepted | Earlier | TurnedAway


class Sender:
    """Sends to one collection, under the labels `access` and with this metadata. `again` sends also what is there
    already; `rest` is waited before another try; `hash_of` is the hex sha256 of a file, empty where it cannot be read.
    """

    def __init__(
        self,
        client: Client,
        collection: str,
        *,
        again: bool = False,
        webhook: str | None = None,
        access: Sequence[str] = (),
        metadata: Json | None = None,
        rest: float = 1.0,
        hash_of: Callable[[Path], str] | None = None,
    ) -> None:
        self._client = client
        self._path = f"/v1/collections/{quote(collection, safe='')}/documents/known"
        self._collection = collection
        self._again = again
        self._webhook = webhook
        self._access = list(access)
        self._metadata = dict(metadata or {})
        self._hash_of = hash_of or hash_of_file
        self._persist = Persistence(rest)

    async def send(self, files: Sequence[Named]) -> AsyncGenerator[Sent]:
        """What becomes of the files, in their order, as it becomes known. Raises what ends the ingest."""
        for start in range(0, len(files), ASKED):
            some = files[start : start + ASKED]
            earlier = [] if self._again else await self.earlier(some)
            for each in earlier:
                yield each
            known = {name for each in earlier for name in each.names}
            for batch in batches([(name, path) for name, path in some if name not in known]):
                async for sent in self._sent(batch):
                    yield sent

    async def earlier(self, files: Iterable[Named]) -> list[Earlier]:
        """Those of at most 1000 files that need not be sent. One that cannot be read is not among them: sending it will
        say why."""
        hashes = ((name, self._hash_of(file)) for name, file in files)
        offers = [{"name": name, "content_hash": hash_} for name, hash_ in hashes if hash_]
        if not offers:
            return []
        asked = {"documents": offers, "access": self._access, "metadata": self._metadata}
        told = await self._client.post(self._path, asked)
        self._persist.reached = True
        by_job: dict[str | None, list[str]] = {}
        for each in told["data"]:
            by_job.setdefault(each["job"], []).append(each["name"])
        return [Earlier(tuple(names), job) for job, names in by_job.items()]

    async def _sent(self, batch: list[Named]) -> AsyncGenerator[Sent]:
        """A batch as one job; where a file is too large or unreadable, that one alone is turned away."""
        try:
            job = await self._persistently(batch)
        except (Refused, InvalidInput) as refusal:
            if isinstance(refusal, Refused) and refusal.status != TOO_LARGE:
                raise
            if len(batch) == 1:
                yield TurnedAway(batch[0][0], str(refusal))
                return
            half = len(batch) // 2
            for part in (batch[:half], batch[half:]):
                async for sent in self._sent(part):
                    yield sent
        else:
            yield Accepted(job)

    async def _persistently(self, batch: list[Named]) -> Json:
        """Under one key, so that it makes one job however often it is sent."""
        key = str(uuid.uuid4())
        return await self._persist(
            lambda: self._client.upload(
                self._collection,
                batch,
                key=key,
                webhook=self._webhook,
                access=self._access,
                metadata=self._metadata,
            )
        )


class Persistence:
    """Asks again where time mends it: a service that starts anew, or is full. `reached`: it was there once."""

    def __init__(self, rest: float = 1.0) -> None:
        self.reached = False
        self._rest = rest

    async def __call__(self, ask: Callable[[], Awaitable[Json]]) -> Json:
        """The answer. Raises the last refusal when time does not seem to mend it."""
        waited = 0
        while True:
            try:
                answer = await ask()
                self.reached = True
                return answer
            except (Misconfigured, UpstreamFailed, Refused) as error:
                rest = self._before_next_try(error)
                waited += 1
                if rest is None or waited >= TRIES:
                    raise
                await asyncio.sleep(rest)

    def _before_next_try(self, error: FleetfootError) -> float | None:
        """None where it would not help: whoever was never reached is not there, or somewhere else."""
        if not isinstance(error, Refused):
            return self._rest if self.reached else None
        return max(error.retry_after or 0.0, self._rest) if error.status in PASSING else None


def hash_of_file(file: Path) -> str:
    """The hex sha256 of its bytes; empty where it cannot be read."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""
