"""Who may come in: keys from a TOML file, compared in constant time, each with its tenant, scopes and quota.

    [[keys]]
    hash = "sha256:…"            # of the key; `fleetfoot keys new` prints both
    tenant = "acme"
    scopes = ["read", "ingest"]  # read, ingest, admin
    labels = ["staff"]
    quota = 600                  # requests per minute; leave out for no limit
    priority = 0                 # lower is served first; from 1 on it is batch traffic

Keys are random and long, so a plain SHA-256 of them is enough: there is nothing to guess. Without a keys file there is
one tenant that may do everything, and only programs of this machine are let in.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import Headers

from api.visits import Visit
from pipeline.errors import Misconfigured, NotAllowed, QuotaUsedUp, Unauthenticated
from pipeline.passages import Caller, Scope

ALGORITHM = "sha256:"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A fresh key, to be given to its owner, and its hash, to be written to the keys file."""

    key: str
    hash: str


def new_key() -> NewKey:
    """256 random bits behind a prefix that secret scanners can be taught."""
    key = f"ff-{secrets.token_urlsafe(32)}"
    return NewKey(key, hash_of(key))


def hash_of(key: str) -> str:
    """How a key is written in the keys file."""
    return ALGORITHM + hashlib.sha256(key.encode()).hexdigest()


class Callers:
    """Tells who calls, and whether they may."""

    def __init__(self, known: list[Known] | None, now: Callable[[], float] = time.monotonic) -> None:
        self._known = known
        self._now = now

    @classmethod
    def open(cls, keys_file: Path | None) -> Callers:
        """Reads the keys file, once. Raises Misconfigured, naming the entry that cannot be used."""
        if keys_file is None:
            return cls(None)
        try:
            written = _KeysFile.model_validate(tomllib.loads(keys_file.read_text(encoding="utf-8")))
        except OSError as error:
            raise Misconfigured(
                f"FLEETFOOT_KEYS_FILE={keys_file} cannot be read: {error.strerror}. "
                "Write one with the output of `fleetfoot keys new`."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Misconfigured(f"FLEETFOOT_KEYS_FILE={keys_file} is not valid TOML: {error}.") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise Misconfigured(f"FLEETFOOT_KEYS_FILE={keys_file}: '{place}': {first['msg']}.") from error
        return cls([entry.known() for entry in written.keys])

    @property
    def by_key(self) -> bool:
        """Whether callers need a key."""
        return self._known is not None

    def admit(self, visit: Visit, headers: Headers) -> Caller:
        """Raises Unauthenticated, NotAllowed for a foreign web page on an open service, or QuotaUsedUp."""
        if self._known is None:
            _from_this_machine(headers)
            visit.known = True
            return visit.caller
        known = self._find(headers.get("authorization"))
        visit.caller, visit.known = known.caller, True
        known.bucket.take(self._now())
        return known.caller

    def _find(self, authorization: str | None) -> Known:
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise Unauthenticated("This needs a key. Send it as 'Authorization: Bearer KEY'.")
        offered = hash_of(key.strip())
        found: Known | None = None
        for known in self._known or []:  # all of them, so that the time tells nothing
            if hmac.compare_digest(known.hash, offered):
                found = known
        if found is None:
            raise Unauthenticated("Nobody here knows this key. Ask the service's operator for a new one.")
        return found


class Bucket:
    """A token bucket: `quota` requests at once, refilled evenly over a minute."""

    __slots__ = ("_left", "_seen", "quota")

    def __init__(self, quota: int | None) -> None:
        self.quota = quota
        self._left = inf if quota is None else float(quota)
        self._seen: float | None = None

    def take(self, now: float) -> None:
        """Raises QuotaUsedUp with the seconds until the next request will be let in."""
        if self.quota is None:
            return
        passed = 0.0 if self._seen is None else now - self._seen
        self._seen = now
        self._left = min(self._left + passed * self.quota / 60, self.quota)
        if self._left < 1:
            wait = (1 - self._left) * 60 / self.quota
            raise QuotaUsedUp(
                f"This key may send {self.quota} requests a minute and has used them up. Wait {wait:.1f} s.",
                retry_after=wait,
            )
        self._left -= 1


@dataclass(frozen=True, slots=True)
class Known:
    """A key's hash, whose it is, and what is left of its quota."""

    hash: str
    caller: Caller
    bucket: Bucket = field(default_factory=lambda: Bucket(None))


Label = Annotated[str, Field(pattern=r"^[^\W_][\w.:@/+\-]{0,63}$")]  # as a document's labels are


class _Key(BaseModel):
    model_config = ConfigDict(extra="forbid")

    hash: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    tenant: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,63}$")
    scopes: list[Scope] = Field(min_length=1)
    labels: list[Label] = []
    quota: int | None = Field(default=None, ge=1)
    priority: int = 0

    def known(self) -> Known:
        caller = Caller(self.tenant, frozenset(self.scopes), frozenset(self.labels), self.quota, self.priority)
        return Known(self.hash, caller, Bucket(self.quota))


class _KeysFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[_Key] = Field(min_length=1)


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _from_this_machine(headers: Headers) -> None:
    """Without keys, a web page of some other site must not reach the service through the user's browser.

    Its requests carry its Origin; after DNS rebinding they carry its name as Host.
    """
    for name, url in (("Host", f"//{headers.get('host', 'localhost')}"), ("Origin", headers.get("origin"))):
        if url is not None and not is_loopback(_hostname(url)):
            raise NotAllowed(
                f"Without a keys file only this machine is served, and this request's {name} is another: "
                f"{url.removeprefix('//')}. Set FLEETFOOT_KEYS_FILE, or call http://127.0.0.1."
            )


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # an address that is none, such as one with half a bracket
        return ""
