"""Requests that may come twice: the same key with the same request is one job, whoever was quicker.

    key:…      sent by a client (Idempotency-Key), good for a day
    retry:ID   what failed in a job is tried again once; what fails then belongs to the new job

The unique index `jobs_by_key` decides between two that come at the same time. See the draft "The Idempotency-Key HTTP
Header Field" of the IETF's HTTPAPI working group.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection, and_, select, update

from ingest.schema import jobs
from pipeline.errors import Conflict, InvalidInput
from pipeline.jobs import Terms, WebhookState

KEY_SECONDS = 86_400.0
CLIENTS = "key:"
_RETRIES = "retry:"
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, as it is kept with its job: by `hash` two requests are told to be the same."""

    key: str | None = None
    hash: str | None = None
    webhook: str | None = None

    def columns(self) -> dict[str, str | None]:
        """As the table `jobs` has them."""
        waiting = "" if self.webhook is None else WebhookState.WAITING
        identity = {"idempotency_key": self.key, "request_hash": self.hash}
        return {**identity, "webhook": self.webhook, "webhook_state": waiting}


NO_REQUEST = Request()


def request_of(terms: Terms, *asked: object) -> Request:
    """`asked` is all that makes it this request, as JSON could say it. Raises InvalidInput for an unusable key."""
    if terms.key is None:
        return Request(webhook=terms.webhook)
    if not _KEY.fullmatch(terms.key):
        raise InvalidInput(
            "The Idempotency-Key must have 1 to 128 visible ASCII characters, such as a UUID.", field="Idempotency-Key"
        )
    said = json.dumps([*asked, terms.webhook], ensure_ascii=True, separators=(",", ":"))
    return Request(f"{CLIENTS}{terms.key}", sha256(said.encode("ascii")).hexdigest(), terms.webhook)


def retry_of(job_id: str, terms: Terms) -> Request:
    """The request to try again what failed in a job: there is one for each job."""
    return Request(f"{_RETRIES}{job_id}", sha256(job_id.encode()).hexdigest(), terms.webhook)


def earlier(connection: Connection, tenant: str, request: Request, now: float) -> str | None:
    """Within a write: the job that this request has made already. A client's key that is too old is forgotten.

    Raises Conflict when the key has come with another request.
    """
    if request.key is None:
        return None
    mine = and_(jobs.c.tenant == tenant, jobs.c.idempotency_key == request.key)
    row = connection.execute(select(jobs.c.id, jobs.c.request_hash, jobs.c.accepted).where(mine)).one_or_none()
    if row is None:
        return None
    if request.key.startswith(CLIENTS) and row.accepted <= now - KEY_SECONDS:
        connection.execute(update(jobs).where(jobs.c.id == row.id).values(idempotency_key=None))
        return None
    if row.request_hash != request.hash:
        raise Conflict(
            f"The Idempotency-Key '{request.key.removeprefix(CLIENTS)}' has come before, with another request: it made "
            f"the job {row.id}. Use a new key for a new request."
        )
    found: str = row.id
    return found
