"""One connection: a request's first byte is noted, and nobody may dawdle, neither in sending nor in reading.

    header      sent whole within `header` seconds
    body        within `body` seconds, and one more for every `rate` bytes of it that have come
    answer      while more of it waits than the socket takes, `rate` bytes a second are read, looked at each `stall`

(uvicorn bounds only the silence between two requests, and any byte ends that. Half-open connections are found by the
kernel: see `api.serving.listen`.) A timer is left to run out rather than cancelled, so that a request that comes in one
piece, as nearly all do, costs two looks at the loop's clock.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf
from typing import ClassVar, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.errors import Problem
from api.visits import Visit

FIRST_BYTE = "first_byte"
HANG_UP = "hang_up"
WRITABLE = "writable"
TOO_SLOW = "request_too_slow"


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds, and `rate` in bytes a second; see above."""

    header: float = 10.0
    body: float = 20.0
    stall: float = 45.0
    rate: float = 1000.0


class Phase(StrEnum):
    """What a connection waits for. In `ANSWER` the client has done its part."""

    HEADER = "header"
    BODY = "body"
    ANSWER = "answer"
    IDLE = "idle"


def _takes(flow: FlowControl) -> bool:
    """Whether what is written now is taken without waiting."""
    return not flow.write_paused


class Connection(HttpToolsProtocol):
    """uvicorn's protocol for HTTP/1.1, with an end to patience; `server` makes a subclass with the service's own."""

    patience: ClassVar[Patience] = Patience()

    def count(self, phase: Phase) -> None:
        """A client is hung up on for dawdling."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._phase = Phase.HEADER
        self._since = self.loop.time()
        self._came = 0
        self._due = inf
        self._timer: asyncio.TimerHandle | None = None
        self._untaken = 0
        self._reading: asyncio.TimerHandle | None = None
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn forgets to after a reset, and the timer keeps all of this
        for timer in (self._timer, self._reading):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._came += len(data)
        if self._phase is not Phase.ANSWER:
            self._look_later()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._enter(Phase.HEADER)
        state = self.scope.setdefault("state", {})
        state[FIRST_BYTE] = time.perf_counter()
        state[HANG_UP] = self.transport.abort
        state[WRITABLE] = partial(
            _takes, self.flow
        )  # not a method: a connection that holds itself waits for the collector

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._enter(Phase.BODY)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._enter(Phase.IDLE if self.cycle.response_complete else Phase.ANSWER)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase is Phase.ANSWER and self.cycle.response_complete:  # else the next request is in line already
            self._enter(Phase.IDLE)

    def pause_writing(self) -> None:
        """The client has not taken what was written, and from now on it is looked at how fast it does."""
        super().pause_writing()
        self._untaken = self.transport.get_write_buffer_size()
        if self._reading is None:
            self._reading = self.loop.call_later(self.patience.stall, self._look_at_reading)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def timeout_keep_alive_handler(self) -> None:
        """A connection with an answer that nobody reads would be closed only when it has been read."""
        self._close()

    def _enter(self, phase: Phase) -> None:
        self._phase, self._since, self._came = phase, self.loop.time(), 0

    def _ends(self) -> float:
        """When patience ends, on the loop's clock, as things stand."""
        match self._phase:
            case Phase.HEADER:
                return self._since + self.patience.header
            case Phase.BODY:
                return self._since + self.patience.body + self._came / self.patience.rate
            case Phase.IDLE:
                return self._since + self.timeout_keep_alive
            case Phase.ANSWER:
                return inf

    def _look_later(self) -> None:
        ends = self._ends()
        if ends >= self._due or self.transport.is_closing():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = ends
        self._timer = self.loop.call_at(ends, self._look)

    def _look(self) -> None:
        self._timer, self._due = None, inf
        if self._phase is Phase.ANSWER:
            return
        if self.flow.read_paused:  # it is us who do not read
            self._enter(self._phase)
        if self.loop.time() < self._ends():
            self._look_later()
        elif self._phase is Phase.HEADER and (before := self._being_answered()) is not None:
            before.keep_alive = False  # a dawdling second request ends the connection, after the answer to the first
        else:
            self._hang_up()

    def _being_answered(self) -> RequestResponseCycle | None:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return None if cycle is None or cycle.response_complete else cycle

    def _hang_up(self) -> None:
        if self._phase is not Phase.IDLE:
            self.count(self._phase)
        if self._phase is Phase.BODY and not self.cycle.response_started:
            lately = f"within {self.patience.body:g} s and at {self.patience.rate:g} bytes a second"
            self._tell(f"Its body did not come {lately}.", self.scope.get("state", {}).get("visit"))
        elif self._phase is Phase.HEADER and self._came:
            self._tell(f"Its header did not come within {self.patience.header:g} s.", None)
        self._close()

    def _tell(self, why: str, visit: Visit | None) -> None:
        problem = Problem(408, f"The request was sent too slowly, and given up. {why} Send it again.", TOO_SLOW)
        body = problem.body()
        lines = ["HTTP/1.1 408 Request Timeout", "content-type: application/json", f"content-length: {len(body)}"]
        if visit is not None:
            problem.note(visit)
            lines.append(f"x-request-id: {visit.id}")
        if not self.transport.get_write_buffer_size():
            self.transport.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
            self.transport.close()

    def _close(self) -> None:
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _look_at_reading(self) -> None:
        self._reading = None
        untaken = self.transport.get_write_buffer_size()
        if self._untaken - untaken < self.patience.stall * self.patience.rate:
            self.count(Phase.ANSWER)
            self.transport.abort()
        else:
            self._untaken = untaken
            self._reading = self.loop.call_later(self.patience.stall, self._look_at_reading)
