"""What can go wrong, one class for each thing that somebody can do something about.

    FleetfootError
    ├── InvalidInput            what was sent cannot be used; the message names where and the remedy
    │   ├── Unparsable          one document cannot be read; the rest of its job goes on
    │   └── TooLarge            it is over a stated limit
    ├── NotFound                no such collection, document, job, model
    ├── NoLongerKept            it was there, and was kept for a while only
    ├── Conflict                it clashes with what is there already
    ├── NotAllowed              the caller's key lacks the scope
    │   └── Unauthenticated     there is no key, or nobody knows it
    ├── OutOfTime               a stage used up what it was granted
    ├── Overloaded              a line is full; waiting longer would only be late
    │   └── QuotaUsedUp         this caller's quota, not the service, is the limit
    ├── Unavailable             the catalog's database does not answer; waiting helps
    ├── UpstreamFailed          the model server did not answer as it should
    ├── Damaged                 a file is not what its manifest says
    ├── WrongFingerprint        vectors or files were made by another model
    └── Misconfigured           a setting cannot work; said at start, never at the first request

Stages know no HTTP: `api/errors.py` alone maps these to status codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class FleetfootError(Exception):
    """The base of every error that fleetfoot raises on purpose; its text is a sentence with the remedy.

    `detail` is what only the operator should read, such as addresses: it goes to the log and never to a client.
    """

    code: ClassVar[str] = "internal"
    detail: str = ""


class InvalidInput(FleetfootError):
    """What was sent cannot be used.

    `field` names the place, as `filters.and[1].key` or `documents[3].text`, where there is one.
    """

    code = "invalid_request"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Unparsable(InvalidInput):
    """One document cannot be read; it fails alone, with this reason."""

    code = "unparsable_document"


class TooLarge(InvalidInput):
    """Something is over a limit; the message gives its size and the limit, in the same unit."""

    code = "too_large"


class NotFound(FleetfootError):
    """There is nothing of that name; the message lists a few names that are known."""

    code = "not_found"

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        listed = ", ".join(self.known[:10])
        hint = f"Known: {listed}." if listed else f"There is no {kind} yet."
        super().__init__(f"There is no {kind} '{name}'. {hint}")


class NoLongerKept(FleetfootError):
    """What was asked for was kept for a while, and the while is over; the message says what to do instead."""

    code = "no_longer_kept"


class Conflict(FleetfootError):
    """What was asked clashes with what is there; the message says with what."""

    code = "conflict"


class NotAllowed(FleetfootError):
    """The caller is known, and its key lacks the scope that this needs."""

    code = "not_allowed"


class Unauthenticated(NotAllowed):
    """No key was sent, or it is not in the keys file."""

    code = "unauthenticated"


class OutOfTime(FleetfootError):
    """A stage, or the whole request, used up the seconds it was granted."""

    code = "out_of_time"

    def __init__(self, stage: str, granted: float) -> None:
        self.stage, self.granted = stage, granted
        happened = f"did not finish within the {granted * 1000:.0f} ms that it was granted"
        if granted <= 0:
            happened = "was not begun: no time was left for it"
        super().__init__(f"The stage '{stage}' {happened}. Raise deadline_ms or ask for less.")


class Overloaded(FleetfootError):
    """A line is full. `retry_after` is in seconds, computed from the line; None where waiting would not help."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after: float | None, detail: str = "") -> None:
        super().__init__(message)
        self.retry_after, self.detail = retry_after, detail


class QuotaUsedUp(Overloaded):
    """This caller has used up its own quota; others are served."""

    code = "quota_used_up"


class Unavailable(FleetfootError):
    """The catalog's database is away or locked; `retry_after` is in seconds. What was accepted before is kept."""

    code = "catalog_unavailable"
    retry_after: ClassVar[float] = 2.0

    def __init__(self, detail: str) -> None:
        super().__init__("The catalog does not answer just now. Try again in a few seconds.")
        self.detail = detail


class UpstreamFailed(FleetfootError):
    """The model server refused, broke off or answered something else; `status` is its HTTP status if it had one."""

    code = "upstream_failed"

    def __init__(self, message: str, *, status: int | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.status, self.detail = status, detail


class Damaged(FleetfootError):
    """A file of a generation is not what its manifest says; the previous generation serves instead."""

    code = "damaged_generation"


class WrongFingerprint(FleetfootError):
    """Two things that must come from one model do not; the message names both."""

    code = "wrong_fingerprint"


class Misconfigured(FleetfootError):
    """A setting cannot work; the message names the setting, its value and what would work."""

    code = "misconfigured"
