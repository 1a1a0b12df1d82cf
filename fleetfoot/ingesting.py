"""`fleetfoot ingest` and `refresh`: documents to the service or made anew there, and what became of each."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fleetfoot.client import Client, Json, Refused
from fleetfoot.finding import Named, batches, files_below
from fleetfoot.jobs import finished, show_failed
from pipeline.errors import FleetfootError, InvalidInput, Misconfigured, UpstreamFailed

TOO_LARGE = 413
FOLLOWED = 4  # jobs whose events are read at the same time
TRIES = 30  # to follow a job again after its stream broke off: at a second's rest, longer than a restart takes


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of the files: counts by state, and (name, reason) of the failed ones."""

    jobs: tuple[str, ...]
    counts: dict[str, int]
    failed: tuple[tuple[str, str], ...]
    generation: int | None

    def json(self) -> Json:
        """For `--json`."""
        return {
            "jobs": list(self.jobs),
            "counts": self.counts,
            "failed": [{"name": name, "reason": reason} for name, reason in self.failed],
            "generation": self.generation,
        }


async def ingest(
    client: Client, collection: str, paths: Sequence[Path], console: Console, *, wait: bool, rest: float = 1.0
) -> Ingested:
    """Sends the files and, when asked to wait, shows a live bar until every one is searchable or has failed.

    Files go one request after the other, in order, while the jobs of those before are followed already. What is
    interrupted says on standard error what was accepted, since that goes on. `rest` is how many seconds pass before
    a job whose stream broke off is followed again.
    """
    files = files_below(paths)
    with _bars(console, len(files)) as bars:
        sending = _Sending(client, collection, bars, len(files))
        following: list[asyncio.Task[None]] = []
        try:
            for batch in batches(files):
                sent = await sending.send(batch)
                following += [asyncio.create_task(sending.follow(job, rest)) for job in sent if wait]
            await asyncio.gather(*following)
        except (asyncio.CancelledError, FleetfootError):
            sending.tell_what_goes_on(Console(stderr=True, highlight=False, soft_wrap=True))
            raise
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
    return sending.ingested()


async def refresh(client: Client, collection: str, console: Console, *, wait: bool, rest: float = 1.0) -> Ingested:
    """Has a collection made anew and, when asked to wait, shows a live bar until the new generation is there."""
    job = await client.post(f"/v1/collections/{quote(collection, safe='')}/refresh", {})
    with _bars(console, job["total"], sent=False) as bars:
        refreshing = _Sending(client, collection, bars, job["total"], "documents")
        refreshing.take(job)
        try:
            if wait:
                await refreshing.follow(job["id"], rest)
        except (asyncio.CancelledError, FleetfootError):
            refreshing.tell_what_goes_on(Console(stderr=True, highlight=False, soft_wrap=True))
            raise
    return refreshing.ingested()


def show(ingested: Ingested, console: Console) -> None:
    """Says how it went, and for each failed file why."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(ingested.counts.items()))
    console.print(f"{sum(ingested.counts.values())} documents: {counts}")
    show_failed(list(ingested.failed), console)


class _Sending:
    """The files of one call on their way: the jobs they became, and those that were refused at the door."""

    def __init__(self, client: Client, collection: str, bars: Progress, total: int, what: str = "files") -> None:
        self._client = client
        self._collection = collection
        self._bars = bars
        self._total = total
        self._what = what
        self._jobs: dict[str, Json] = {}
        self._refused: list[tuple[str, str]] = []
        self._few = asyncio.Semaphore(FOLLOWED)
        self._sent, self._done = bars.task_ids

    async def send(self, batch: list[Named]) -> list[str]:
        """Sends a batch and returns its job; where a file is too large or unreadable, that one alone is refused."""
        try:
            job = await self._client.upload(self._collection, batch)
        except (Refused, InvalidInput) as refusal:
            if isinstance(refusal, Refused) and refusal.status != TOO_LARGE:
                raise
            if len(batch) > 1:
                half = len(batch) // 2
                return [*await self.send(batch[:half]), *await self.send(batch[half:])]
            self._refused.append((batch[0][0], str(refusal)))
            jobs: list[str] = []
        else:
            self.take(job)
            jobs = [job["id"]]
        self._bars.advance(self._sent, len(batch))
        self._draw()
        return jobs

    async def follow(self, job: str, rest: float) -> None:
        """Reads a job's events to its end; a service that goes away is asked again when it is back."""
        reason = ""
        async with self._few:
            for _ in range(TRIES):
                try:
                    if await self._followed(job):
                        return
                except (Misconfigured, UpstreamFailed) as away:
                    reason = str(away)
                else:
                    reason = "The service closed the stream."
                await asyncio.sleep(rest)
        raise UpstreamFailed(f"Job {job} cannot be followed any longer. {reason}")

    async def _followed(self, job: str) -> bool:
        async for name, data in self._client.events("GET", f"/v1/jobs/{job}/events"):
            told = json.loads(data)
            if name == "error":
                raise UpstreamFailed(told["error"]["message"])
            self._jobs[job] = told
            self._draw()
            if name == "done":
                return True
        return False

    def take(self, job: Json) -> None:
        """A job that was accepted."""
        self._jobs[job["id"]] = job

    def tell_what_goes_on(self, console: Console) -> None:
        """What was accepted will be done, whoever stops watching."""
        if self._jobs:
            accepted = sum(job["total"] for job in self._jobs.values())
            console.print(
                f"{accepted} of {self._total} {self._what} were accepted and will be done; see `fleetfoot jobs` "
                f"({', '.join(self._jobs)}).",
                markup=False,
            )

    def ingested(self) -> Ingested:
        """How it stands."""
        failed = [(item["name"], item["reason"]) for job in self._jobs.values() for item in job["failed"]]
        generations = [job["generation"] for job in self._jobs.values() if job["generation"] is not None]
        return Ingested(
            tuple(self._jobs), dict(self._counts()), (*self._refused, *failed), max(generations, default=None)
        )

    def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter({"failed": len(self._refused)} if self._refused else {})
        for job in self._jobs.values():
            counts.update(job["counts"])
        return counts

    def _draw(self) -> None:
        note = ", ".join(f"{count} {state}" for state, count in sorted(self._counts().items()) if state != "published")
        done = sum(finished(job) for job in self._jobs.values()) + len(self._refused)
        self._bars.update(self._done, completed=done, note=note)


@contextmanager
def _bars(console: Console, total: int, *, sent: bool = True) -> Generator[Progress]:
    bars = Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
        console=console,
        disable=console.quiet,
    )
    bars.add_task("sent", total=total, note="", visible=sent)
    bars.add_task("searchable", total=total, note="")
    with bars:
        yield bars
