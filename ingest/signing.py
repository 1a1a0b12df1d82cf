"""Signatures of webhooks, by the scheme of Standard Webhooks 1.0: HMAC-SHA256 over id, time and body.

    webhook-id: job_731e2cd849ca4ad188fc        the same for every attempt
    webhook-timestamp: 1796062478               of this attempt, in whole seconds
    webhook-signature: v1,K5oZfzN95Z9U…         one for each secret, with a blank between

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode

from pipeline.errors import Misconfigured

PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes, as the specification says


def secrets_of(text: str) -> tuple[bytes, ...]:
    """The keys of a setting: one or, while it is changed, several with blanks between; the first is the new one.

    Raises Misconfigured for one that receivers' libraries would not take either.
    """
    return tuple(_secret(part) for part in text.split())


def signed(secrets: tuple[bytes, ...], message_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """The three headers of one attempt. An id has no full stop in it: those divide what is signed."""
    content = b".".join((message_id.encode("ascii"), str(seconds).encode("ascii"), body))
    signatures = (b64encode(hmac.digest(secret, content, "sha256")).decode("ascii") for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _secret(text: str) -> bytes:
    try:
        secret = b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not _SHORTEST <= len(secret) <= _LONGEST:
        raise Misconfigured(
            f"FLEETFOOT_WEBHOOK_SECRET must be '{PREFIX}' and {_SHORTEST} to {_LONGEST} random bytes in base64. "
            f'Make one with: echo "{PREFIX}$(head -c 32 /dev/urandom | base64)"'
        )
    return secret
