"""What a request may ask of the job that it makes: to be one with an earlier one, and to be told of its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Header, Query

from ingest.addresses import Addresses
from ingest.webhooks import check_webhook
from pipeline.errors import InvalidInput
from pipeline.jobs import Terms

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key with the same request, within a day, is the same job.",
        examples=["5f0c2d7e-9b1a-4c3d-8e6f-7a90b1c2d3e4"],
    ),
]
WebhookUrl = Annotated[
    str | None,
    Query(alias="webhook", description="Told when the job has ended.", examples=["https://example.com/hook"]),
]


@dataclass(frozen=True, slots=True)
class TermsOptions:
    """`webhook` is told of every job that names none; without `signed` there is no secret, and nobody is told.

    With `allow_private` receivers may be on the service's own network.
    """

    webhook: str | None = None
    signed: bool = False
    allow_private: bool = False

    def terms(self, key: str | None, webhook: str | None) -> Terms:
        """Raises InvalidInput for a webhook that cannot be, and for any where none are sent."""
        if webhook is None:
            return Terms(_bare(key), self.webhook)
        if not self.signed:
            raise InvalidInput(
                "This service sends no webhooks: its operator has set no FLEETFOOT_WEBHOOK_SECRET to sign them with. "
                "Follow the job by /v1/jobs/{id}/events instead.",
                field="webhook",
            )
        check_webhook(webhook, Addresses(allow_private=self.allow_private))
        return Terms(_bare(key), webhook)


def _bare(key: str | None) -> str | None:
    """The key without the quotation marks that structured headers have: quoted or not, it is the same key."""
    quoted = key is not None and len(key) > 2 and key[0] == key[-1] == '"'
    return key[1:-1] if key is not None and quoted else key
