"""A visit: what the door knows about one request while it is inside, for the header, the log line and the metrics."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from pipeline.clock import Budget, Clock
from pipeline.passages import Caller, Degraded

REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


def _nothing() -> None:
    """Where the server gives no way to hang up, the response simply ends."""


def _unknown() -> bool:
    """Where the server does not tell, a write may have to wait."""
    return False


@dataclass(slots=True)
class Visit:
    """One request, from its first byte on.

    `started` is on the scale of `time.perf_counter`. `known` tells whether it was found out who calls. `promised` is
    the deadline in seconds, `met` whether it was kept, once that is known. A request that searches several queries has
    a clock for each. `detail` is what of an error only the log tells. `hang_up` breaks the connection, for streams
    that cannot end well; `writable` tells whether the socket takes what is written now without waiting.
    """

    id: str
    started: float
    method: str = ""
    path: str = ""
    caller: Caller = field(default_factory=Caller)
    known: bool = False
    clocks: list[Clock] = field(default_factory=list[Clock])
    degraded: list[Degraded] = field(default_factory=list[Degraded])
    query_hash: str = ""
    generation: str = ""
    profile: str = ""
    code: str = ""
    detail: str = ""
    status: int = 0
    left: bool = False
    promised: float | None = None
    met: bool | None = None
    first_event: float | None = None
    first_token: float | None = None
    completed: float | None = None
    hang_up: Callable[[], None] = _nothing
    writable: Callable[[], bool] = _unknown

    def clock(self, budget: Budget) -> Clock:
        """Starts a clock at the request's first byte; its laps are reported with the visit."""
        clock = Clock(budget, started=self.started, priority=self.caller.priority)
        self.clocks.append(clock)
        return clock

    def elapsed(self) -> float:
        """Seconds since the request's first byte."""
        return time.perf_counter() - self.started

    def remember_query(self, text: str) -> None:
        """Keeps a hash for the log: the same question can be followed, the text cannot be read."""
        self.query_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def request_id(offered: str | None) -> str:
    """The id that a client or proxy offered, where it is a plain word of at most 128 characters, or a new one."""
    if offered is not None and REQUEST_ID.fullmatch(offered):
        return offered
    return uuid.uuid4().hex


def visit_of(request: Request) -> Visit:
    """The visit that the door began."""
    visit: Visit = request.scope["state"]["visit"]
    return visit
