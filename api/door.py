"""The door: every request comes in and goes out here, whatever happens to it in between.

On the way in it gets its id and its first byte's time, and its caller is let in or not. On the way out it gets
`X-Request-Id` and `Server-Timing`, one JSON line in the log, and its place in the metrics. What nobody foresaw becomes
a 500 here that tells the request's id and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.callers import Callers
from api.connection import FIRST_BYTE, HANG_UP, TOO_SLOW, WRITABLE
from api.errors import problem, unexpected
from api.service import Behind
from api.timings import server_timing
from api.turns import Turns
from api.visits import Visit, request_id
from pipeline.errors import FleetfootError, TooLarge

REQUEST_TIMEOUT = 408
CLIENT_CLOSED_REQUEST = 499  # nginx's number for it; only the log and the metrics see it
GUARDED = "/v1/"
CUT_SHORT = "cut_short"

requests = logging.getLogger("fleetfoot.requests")
failures = logging.getLogger("fleetfoot.failures")


class Door:
    """Pure ASGI middleware, the outermost one."""

    def __init__(self, app: ASGIApp, callers: Callers, behind: Behind) -> None:
        self.app = app
        self.callers = callers
        self.metrics = behind.metrics
        self.load = behind.load
        self.turns = Turns()
        self.limits = behind.limits
        self.closing = behind.closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        visit = self._welcome(scope, headers)
        leaving = _Outward(visit, send)
        body = _Inward(receive, headers, self._body_limit(scope))
        self.metrics.entered()
        try:
            if visit.path.startswith(GUARDED):
                await self.turns.take()
                caller = self.callers.admit(visit, headers)
                with self.load.stay(caller.priority) as body.complete:
                    await self.app(scope, body.receive, leaving.send)
            else:
                await self.app(scope, body.receive, leaving.send)
        except asyncio.CancelledError:
            if not self.closing.is_set():
                raise
            await self._cut_short(visit)
        except FleetfootError as error:
            await problem(error).response(visit)(scope, receive, leaving.send)
        except Exception:  # noqa: BLE001  the last door: whatever comes here was foreseen by nobody
            failures.exception("request %s failed", visit.id)
            visit.code = unexpected(visit).code
            if leaving.started:
                visit.hang_up()
            else:
                await unexpected(visit).response(visit)(scope, receive, leaving.send)
        finally:
            self._goodbye(scope, visit)

    def _welcome(self, scope: Scope, headers: Headers) -> Visit:
        state: dict[str, Any] = scope.setdefault("state", {})
        started = state.get(FIRST_BYTE, time.perf_counter())
        visit = Visit(request_id(headers.get("x-request-id")), started, scope["method"], scope["path"])
        visit.hang_up = state.get(HANG_UP, visit.hang_up)
        visit.writable = state.get(WRITABLE, visit.writable)
        state["visit"] = visit
        return visit

    async def _cut_short(self, visit: Visit) -> None:
        """The grace of the service's end is over: the connection is broken, so that nobody takes this for an end."""
        visit.code = CUT_SHORT
        visit.hang_up()
        await asyncio.sleep(0)  # the server learns of it

    def _goodbye(self, scope: Scope, visit: Visit) -> None:
        if visit.code == TOO_SLOW:
            visit.status, visit.left = REQUEST_TIMEOUT, False  # told and hung up on by the connection
        elif visit.left:
            visit.status = CLIENT_CLOSED_REQUEST
        route = getattr(scope.get("route"), "path", "unknown")
        self.metrics.finished(visit, route)
        requests.info(json.dumps(log_line(visit, route), ensure_ascii=False))

    def _body_limit(self, scope: Scope) -> int:
        if scope["path"] == "/v1/parse":
            return self.limits.preview
        return self.limits.upload if scope["path"].endswith("/documents") else self.limits.body


class _Outward:
    """Writes the headers that every response has, and remembers its status."""

    def __init__(self, visit: Visit, send: Send) -> None:
        self.started = False
        self._visit = visit
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._visit.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._visit.id
            headers["Server-Timing"] = server_timing(self._visit)
        await self._send(message)


class _Inward:
    """Counts the body as it comes, so that too large a one is refused at its limit and not when it has arrived.

    `complete` is called when all of it is there: from then on the request takes one of the places inside.
    """

    def __init__(self, receive: Receive, headers: Headers, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self.complete: Callable[[], None] = _nobody_counts
        declared = headers.get("content-length", "")
        self._declared = int(declared) if declared.isdecimal() else 0
        self._seen = 0

    async def receive(self) -> Message:
        if self._declared > self._limit:
            raise self._too_large(f"{self._declared}")
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._limit:
            raise self._too_large(f"at least {self._seen}")
        if message["type"] == "http.request" and not message.get("more_body", False):
            self.complete()
        return message

    def _too_large(self, size: str) -> TooLarge:
        return TooLarge(
            f"The body is {size} bytes long, and at most {self._limit} are taken here. Send it in parts.", field="body"
        )


def _nobody_counts() -> None:
    """For what is always let in: health and metrics."""


def log_line(visit: Visit, route: str) -> Mapping[str, object]:
    """What is logged of a request: times and names, never its text. `laps` are [waited, worked] in milliseconds."""
    laps: dict[str, list[list[float]]] = defaultdict(list)
    for clock in visit.clocks:
        for timing in clock.timings:
            laps[timing.stage].append([round(timing.waited * 1000, 3), round(timing.worked * 1000, 3)])
    line: dict[str, object] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request": visit.id,
        "tenant": visit.caller.tenant if visit.known else "",
        "method": visit.method,
        "route": route,
        "path": visit.path,
        "status": visit.status,
        "ms": round(visit.elapsed() * 1000, 3),
        "laps": laps,
        "degraded": [f"{item.stage}: {item.reason}" for item in visit.degraded],
    }
    if visit.left:
        line["left"] = True
    if visit.promised is not None:
        line["deadline_ms"] = round(visit.promised * 1000, 3)
    for name, seconds in (("first_event_ms", visit.first_event), ("first_token_ms", visit.first_token)):
        if seconds is not None:
            line[name] = round(seconds * 1000, 3)
    named = {
        "code": visit.code,
        "detail": visit.detail,
        "query": visit.query_hash,
        "generation": visit.generation,
        "profile": visit.profile,
    }
    return line | {name: value for name, value in named.items() if value}
