"""Several jobs as one: followed at the same time, counted together, each to its end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from urllib.parse import quote

from fleetfoot.client import Client, Json
from fleetfoot.jobs import FINAL
from fleetfoot.reporting import Standing, Watcher
from pipeline.errors import Misconfigured, UpstreamFailed

FOLLOWED = 4  # jobs whose events are read at the same time
TRIES = 30  # to follow a job again after its stream broke off: at a second's rest, longer than a restart takes
PAGE = 1000  # documents of an earlier job that are read at once
SHOWN = 5  # jobs that are named one by one


@dataclass(frozen=True, slots=True)
class Failed:
    """A document that failed, and why."""

    name: str
    reason: str


class Following:
    """What became of `total` documents, of which the service is told job by job."""

    def __init__(self, client: Client, watcher: Watcher, total: int, rest: float = 1.0) -> None:
        self._client = client
        self._watcher = watcher
        self._total = total
        self._rest = rest
        self._few = asyncio.Semaphore(FOLLOWED)
        self._jobs: dict[str, Json] = {}
        self._parts: dict[str, Counter[str]] = {}
        self._unsent: Counter[str] = Counter()
        self.failed: list[Failed] = []

    @property
    def jobs(self) -> tuple[str, ...]:
        """Every job that has some of the documents, in the order in which they became known."""
        return tuple(dict.fromkeys([*self._jobs, *self._parts]))

    @property
    def accepted(self) -> int:
        """Documents that the service has, or has promised."""
        return sum(self.counts().values()) - self._unsent["failed"]

    @property
    def generation(self) -> int | None:
        """The first generation in which all of it is searchable, as far as it is known."""
        return max((job["generation"] for job in self._jobs.values() if job["generation"] is not None), default=None)

    def counts(self) -> Counter[str]:
        """Documents by state, over all jobs and what was not sent."""
        counts = Counter(self._unsent)
        for job in self._jobs.values():
            counts.update(job["counts"])
        for part in self._parts.values():
            counts.update(part)
        return counts

    def take(self, job: Json) -> None:
        """A job that was accepted just now."""
        self._jobs[job["id"]] = job
        self._watcher.told("accepted", job=job["id"], documents=job["total"])
        self._show()

    def take_earlier(self, names: Collection[str], job: str | None) -> None:
        """Documents that are published just so, or on their way in a job of before."""
        if job is None:
            self._unsent["unchanged"] += len(names)
        else:
            self._parts.setdefault(job, Counter())["accepted"] += len(names)
        self._watcher.told("known", job=job, documents=len(names))
        self._show()

    def turn_away(self, name: str, reason: str) -> None:
        """A document that the service does not take."""
        self._unsent["failed"] += 1
        self._fail(name, reason)
        self._show()

    async def follow(self, job: str) -> None:
        """Reads the events of a job of ours to its end."""
        await self._to_the_end(job, mine=True)
        told = self._jobs[job]
        if told["counts"].get("failed", 0) > len(told["failed"]):  # it names some of many
            async for item in self._items(job, "&state=failed"):
                self._fail(item["name"], item["reason"])
        else:
            for item in told["failed"]:
                self._fail(item["name"], item["reason"])

    async def follow_part(self, job: str, names: Collection[str]) -> None:
        """Waits for the end of an earlier job, and then looks what became of some of its documents."""
        await self._to_the_end(job, mine=False)
        wanted, states = set(names), Counter[str]()
        async for item in self._items(job):
            if item["name"] in wanted:
                states[item["state"]] += 1
                if item["state"] == "failed":
                    self._fail(item["name"], item["reason"])
        self._parts[job] = states
        self._show()

    async def _items(self, job: str, which: str = "") -> AsyncGenerator[Json]:
        after: int | None = 0
        while after is not None:
            page = await self._client.get(f"/v1/jobs/{quote(job, safe='')}/items?limit={PAGE}&after={after}{which}")
            for item in page["data"]:
                yield item
            after = page["next"]

    async def _to_the_end(self, job: str, *, mine: bool) -> None:
        """A service that goes away is asked again when it is back."""
        reason = ""
        async with self._few:
            for _ in range(TRIES):
                try:
                    if await self._followed(job, mine=mine):
                        return
                except (Misconfigured, UpstreamFailed) as away:
                    reason = str(away)
                else:
                    reason = "The service closed the stream."
                await asyncio.sleep(self._rest)
        raise UpstreamFailed(f"Job {job} cannot be followed any longer. {reason}")

    async def _followed(self, job: str, *, mine: bool) -> bool:
        async for name, data in self._client.events("GET", f"/v1/jobs/{quote(job, safe='')}/events"):
            told = json.loads(data)
            if name == "error":
                raise UpstreamFailed(told["error"]["message"])
            if mine:
                self._jobs[job] = told
                self._show()
            if name == "done":
                return True
        return False

    def _fail(self, name: str, reason: str) -> None:
        self.failed.append(Failed(name, reason))
        self._watcher.told("failed", name=name, reason=reason)

    def _show(self) -> None:
        counts = self.counts()
        done = sum(count for state, count in counts.items() if state in FINAL)
        rate = self._rate()
        self._watcher.moved(Standing(self._total, sum(counts.values()), done, counts, rate, self._left(rate, counts)))

    def _rate(self) -> tuple[float, float] | None:
        """Of the jobs that are running now, together."""
        rates = [job["rate"] for job in self._jobs.values() if job["state"] == "running" and job.get("rate")]
        if not rates:
            return None
        return sum(rate["documents"] for rate in rates), sum(rate["passages"] for rate in rates)

    def _left(self, rate: tuple[float, float] | None, counts: Counter[str]) -> float | None:
        """With one job its own word; with several, what is still to be read or encoded at the rate of now."""
        if len(self._jobs) == 1 and self._total == sum(counts.values()):
            (job,) = self._jobs.values()
            left = job.get("time_left_ms")
            return None if left is None else left / 1000
        behind = counts["encoded"] + sum(counts[state] for state in FINAL)
        return (self._total - behind) / rate[0] if rate is not None and rate[0] > 0 else None


def named(jobs: tuple[str, ...]) -> str:
    """The jobs' ids, the first few of many."""
    more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
    return ", ".join(jobs[:SHOWN]) + more
