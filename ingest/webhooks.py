"""Webhooks: who wanted to be told that a job has ended is told, at least once, from the catalog's rows.

Whoever sends takes the row first, by moving its count of attempts on, and with it the time of the next one. So a
process that dies while it sends is followed by another attempt, and two processes never make the same one. An answer
of 2xx is the end; 410 is, too: nobody wants to hear it there any more. A redirect is not followed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from sqlalchemy import and_, case, select, update

from ingest.addresses import Addresses, AddressRefused
from ingest.catalog import Catalog
from ingest.progress import UNFINISHED, jobs_of
from ingest.schema import items, jobs
from ingest.signing import signed
from pipeline.errors import InvalidInput
from pipeline.jobs import Job, WebhookState

_LONGEST_URL = 2000
_GONE = 410
_LONGEST_WAIT = 86_400.0  # seconds, whatever Retry-After says
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """How a webhook is sent: signed with each of `secrets`, in `seconds` at most, `together` at once.

    `waits` are the seconds before each further attempt, up to a tenth more, so that what came together does not come
    together again; after the last of them it is given up. A job's end is told `after` seconds: by then a service that
    hears of it searches what it brought.
    """

    secrets: tuple[bytes, ...]
    seconds: float = 20.0
    together: int = 8
    waits: tuple[float, ...] = (5.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0)
    after: float = 1.0


class Webhooks:
    """Stores the catalog and who may be connected to. `agent` is told to receivers."""

    def __init__(
        self,
        catalog: Catalog,
        options: WebhookOptions,
        addresses: Addresses,
        *,
        agent: str = "fleetfoot",
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._catalog = catalog
        self._options = options
        self._addresses = addresses
        self._agent = agent
        self._jitter = jitter

    async def deliver_due(self) -> int:
        """Makes every attempt that is due, a few at once, and returns how many were made."""
        claimed = self._claimed()
        if not claimed:
            return 0
        timeout = aiohttp.ClientTimeout(total=self._options.seconds)
        headers = {"User-Agent": self._agent}
        async with aiohttp.ClientSession(
            connector=self._addresses.connector(), timeout=timeout, headers=headers
        ) as session:
            outcomes = await asyncio.gather(*(self._sent(session, job) for job in claimed))
        for job, outcome in zip(claimed, outcomes, strict=True):
            self._settle(job, outcome)
        return len(claimed)

    def _claimed(self) -> Sequence[Job]:
        """Ended jobs whose next attempt is due, taken over by this process: the count of attempts is the fence."""
        now, waits = self._catalog.now(), self._options.waits
        with self._catalog.database.reading() as connection:
            due = jobs_of(connection, connection.execute(self._due(now)).all(), now)
        claimed: list[Job] = []
        for job in due:
            made = 0 if job.webhook is None else job.webhook.attempts
            if job.finished is None or job.finished + self._options.after > now:
                continue
            wait = waits[min(made, len(waits) - 1)] * (1 + self._jitter() / 10)
            mine = and_(
                jobs.c.id == job.id, jobs.c.webhook_state == WebhookState.WAITING, jobs.c.webhook_attempts == made
            )
            taken = update(jobs).where(mine).values(webhook_attempts=made + 1, webhook_due=now + wait)
            with self._catalog.database.writing() as connection:
                if connection.execute(taken).rowcount == 1:
                    claimed.append(job)
        return claimed

    def _due(self, now: float) -> Any:
        busy = select(items.c.id).where(and_(items.c.job_id == jobs.c.id, items.c.state.in_(UNFINISHED)))
        waiting = and_(jobs.c.webhook_state == WebhookState.WAITING, jobs.c.webhook_due <= now)
        query = select(jobs).where(and_(waiting, ~busy.exists()))
        return query.order_by(jobs.c.webhook_due, jobs.c.id).limit(self._options.together)

    async def _sent(self, session: aiohttp.ClientSession, job: Job) -> _Outcome:
        """One attempt. Whatever goes wrong with it is its outcome."""
        body = payload(job)
        seconds = int(self._catalog.now())
        headers = {
            "Content-Type": "application/json",
            **signed(self._options.secrets, f"job_{job.id}", seconds, body),
        }
        url = job.webhook.url if job.webhook else ""
        try:
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                return _Outcome.of(response)
        except AddressRefused as refused:
            _log.warning("The webhook of job %s is not sent: %s", job.id, refused.detail)
            return _Outcome(told=False, over=True, reason=str(refused))
        except TimeoutError:
            return _Outcome(told=False, reason=f"No answer came within {self._options.seconds:g} s.")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Which address did not answer, and why, is the operator's; the URL is the caller's own.
            _log.warning("The webhook of job %s failed: %s: %s", job.id, type(error).__name__, error)
            return _Outcome(told=False, reason=f"The connection failed ({type(error).__name__}).")

    def _settle(self, job: Job, outcome: _Outcome) -> None:
        made = 1 + (job.webhook.attempts if job.webhook else 0)
        state = WebhookState.WAITING
        if outcome.told:
            state = WebhookState.DELIVERED
        elif outcome.over or made > len(self._options.waits):
            state = WebhookState.FAILED
        mine = and_(jobs.c.id == job.id, jobs.c.webhook_attempts == made)
        values: dict[str, object] = {"webhook_state": state, "webhook_reason": outcome.reason}
        if state is WebhookState.WAITING and outcome.not_before:
            later = self._catalog.now() + outcome.not_before
            values["webhook_due"] = case((jobs.c.webhook_due < later, later), else_=jobs.c.webhook_due)
        with self._catalog.database.writing() as connection:
            connection.execute(update(jobs).where(mine).values(values))
        if state is WebhookState.FAILED:
            _log.warning("The webhook of job %s is given up after %d attempts: %s", job.id, made, outcome.reason)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of an attempt; `over` when no other one would do better, `not_before` in seconds from now."""

    told: bool
    over: bool = False
    reason: str = ""
    not_before: float = 0.0

    @classmethod
    def of(cls, response: aiohttp.ClientResponse) -> _Outcome:
        """By the status alone: what else is answered does not matter, and is not read."""
        status = response.status
        if 200 <= status < 300:
            return cls(told=True)
        if 300 <= status < 400:
            reason = f"It was answered with {status}: redirects are not followed. Name the last address itself."
            return cls(told=False, reason=reason)
        asked = response.headers.get("Retry-After", "")
        wait = min(float(asked), _LONGEST_WAIT) if asked.isdecimal() else 0.0
        return cls(told=False, over=status == _GONE, reason=f"It was answered with {status}.", not_before=wait)


def payload(job: Job) -> bytes:
    """What is sent: how the job ended. The failed documents are many or few, so only where they are listed is told."""
    finished = job.accepted if job.finished is None else job.finished
    data = {
        "id": job.id,
        "collection": job.collection,
        "kind": job.kind,
        "state": job.state,
        "total": job.total,
        "counts": dict(job.counts),
        "accepted": job.accepted,
        "finished": job.finished,
        "generation": job.generation,
        "failed_csv": f"/v1/jobs/{job.id}/failed.csv" if job.failed else None,
    }
    at = datetime.fromtimestamp(finished, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said = {"type": f"job.{job.state}", "timestamp": at, "data": data}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def check_webhook(url: str, addresses: Addresses) -> None:
    """Raises InvalidInput for a URL that could never be told; what its name stands for is looked up when it is."""
    sayable = len(url) <= _LONGEST_URL and url.isascii() and url.isprintable()
    try:
        parts = urlsplit(url if sayable else "")
        usable = parts.scheme in {"http", "https"} and parts.username is None and parts.port != 0
    except ValueError:  # a port that is none, or half of an IPv6 address
        parts, usable = urlsplit(""), False
    if not usable or not parts.hostname:
        raise InvalidInput(
            f"A webhook is an address like https://example.com/hook, of at most {_LONGEST_URL} characters and without "
            "a user's name in it.",
            field="webhook",
        )
    try:
        ip_address(parts.hostname)
    except ValueError:
        return  # a name: what it stands for is checked when it is connected to
    try:
        addresses.check(parts.hostname, parts.hostname)
    except AddressRefused as refused:
        refused.field = "webhook"
        raise
