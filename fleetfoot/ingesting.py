"""`fleetfoot ingest` and `refresh`: documents to the service or made anew there, and what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console

from fleetfoot.client import Client, Json
from fleetfoot.finding import Named, files_below
from fleetfoot.following import Following, named
from fleetfoot.jobs import show_failed
from fleetfoot.reporting import Watcher, watching
from fleetfoot.sending import Accepted, Earlier, Sender, TurnedAway
from pipeline.errors import FleetfootError


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
    client: Client,
    collection: str,
    paths: Sequence[Path],
    console: Console,
    *,
    wait: bool,
    again: bool = False,
    webhook: str | None = None,
    access: Sequence[str] = (),
    lines: bool = False,
    rest: float = 1.0,
) -> Ingested:
    """Sends the files and, when asked to wait, shows how far they are until every one is searchable or has failed.

    What the service has just so, or has accepted, is not sent, unless `again` says so. Files go one request after the
    other, in order, while the jobs of those before are followed already. What is interrupted says on standard error
    what was accepted, since that goes on. `rest` is how many seconds pass before another try.
    """
    sender = Sender(client, collection, again=again, webhook=webhook, access=access, rest=rest)
    return await send_files(client, sender, files_below(paths), console, wait=wait, lines=lines, rest=rest)


async def send_files(
    client: Client,
    sender: Sender,
    files: Sequence[Named],
    console: Console,
    *,
    wait: bool,
    lines: bool = False,
    rest: float = 1.0,
) -> Ingested:
    """What becomes of files under the names that they are given with."""
    with watching(console, len(files), lines=lines) as watcher:
        following = Following(client, watcher, len(files), rest)
        tasks: list[asyncio.Task[None]] = []

        def begin(work: Coroutine[Any, Any, None]) -> None:
            if wait:
                tasks.append(asyncio.create_task(work))
            else:
                work.close()

        async def send() -> None:
            async for sent in sender.send(files):
                match sent:
                    case Accepted(job):
                        following.take(job)
                        begin(following.follow(job["id"]))
                    case Earlier(names, job):
                        following.take_earlier(names, job)
                        if job is not None:
                            begin(following.follow_part(job, names))
                    case TurnedAway(name, reason):
                        following.turn_away(name, reason)
            await asyncio.gather(*tasks)

        await _or_tell(send(), following, len(files), "files", tasks)
        return _ingested(following, watcher)


async def refresh(client: Client, collection: str, console: Console, *, wait: bool, rest: float = 1.0) -> Ingested:
    """Has a collection made anew and, when asked to wait, shows a live bar until the new generation is there."""
    job = await client.post(f"/v1/collections/{quote(collection, safe='')}/refresh", {})
    return await follow_job(client, job, console, wait=wait, rest=rest)


async def retry(client: Client, job_id: str, console: Console, *, wait: bool, rest: float = 1.0) -> Ingested:
    """Has what failed in a job tried again and, when asked to wait, shows a live bar until that is over."""
    job = await client.post(f"/v1/jobs/{quote(job_id, safe='')}/retry", {})
    return await follow_job(client, job, console, wait=wait, rest=rest)


async def follow_job(client: Client, job: Json, console: Console, *, wait: bool, rest: float = 1.0) -> Ingested:
    """What becomes of a job that was accepted just now."""
    with watching(console, job["total"], sent=False) as watcher:
        following = Following(client, watcher, job["total"], rest)
        following.take(job)
        if wait:
            await _or_tell(following.follow(job["id"]), following, job["total"], "documents", [])
        return _ingested(following, watcher)


def show(ingested: Ingested, console: Console) -> None:
    """Says how it went, and for each failed file why."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(ingested.counts.items()))
    console.print(f"{sum(ingested.counts.values())} documents: {counts}")
    show_failed(list(ingested.failed), console)


async def _or_tell(
    work: Coroutine[Any, Any, None], following: Following, total: int, what: str, tasks: Sequence[asyncio.Task[None]]
) -> None:
    """What was accepted will be done, whoever stops watching: that is said when somebody does."""
    try:
        await work
    except (asyncio.CancelledError, FleetfootError):
        if following.jobs:
            rest = "" if following.accepted >= total else " Run the same command again to send the rest."
            Console(stderr=True, highlight=False, soft_wrap=True).print(
                f"{following.accepted} of {total} {what} were accepted and will be done; see `fleetfoot jobs` "
                f"({named(following.jobs)}).{rest}",
                markup=False,
            )
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ingested(following: Following, watcher: Watcher) -> Ingested:
    failed = tuple((each.name, each.reason) for each in following.failed)
    ingested = Ingested(following.jobs, dict(following.counts()), failed, following.generation)
    watcher.told("done", **ingested.json())
    return ingested
