"""Serves the app: one process, uvloop and httptools, and an end in which running streams may finish."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil

import uvicorn
from fastapi import FastAPI
from uvicorn.server import HANDLED_SIGNALS

from api.callers import Callers, is_loopback
from api.connection import Connection, Patience, Phase
from api.service import Behind
from pipeline.errors import Misconfigured

UNSENT = 128 * 1024  # bytes of a connection that the kernel takes before it can send them
LAST_WORDS = 2.0  # seconds for requests that were cancelled at the end to let go of what they hold


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """`grace` is how long running streams may go on after the end was asked for; times are in seconds.

    `vanished` is how long a client that answers nothing, not even the kernel's own probes, is taken to be there.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    grace: float = 30.0
    keep_alive: float = 75.0
    backlog: int = 2048
    patience: Patience = field(default_factory=Patience)
    vanished: float = 60.0


class Serving(uvicorn.Server):
    """uvicorn's server, which tells the app when it begins to close, and ends without raising the signal again.

    (uvicorn raises it after it has stopped; a SIGTERM would then kill the process before the stages are closed.)
    """

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        behind: Behind = app.state.behind
        self._closing = behind.closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams that have no end of their own end now; the others have their grace, and then are cancelled."""
        self._closing.set()
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=LAST_WORDS)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The first SIGINT or SIGTERM asks for the end, a second SIGINT for it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in HANDLED_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in HANDLED_SIGNALS:
                loop.remove_signal_handler(number)


def server(app: FastAPI, options: ServingOptions) -> Serving:
    """A server for the app. Raises Misconfigured where strangers could reach a service without keys."""
    callers: Callers = app.state.callers
    refuse_strangers(options.host, by_key=callers.by_key)
    behind: Behind = app.state.behind

    class Patient(Connection):
        patience = options.patience

        def count(self, phase: Phase) -> None:
            behind.metrics.dawdled(phase)

    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=ceil(options.keep_alive),
        timeout_graceful_shutdown=ceil(options.grace),
        backlog=options.backlog,
        proxy_headers=False,
    )
    return Serving(app, config)


def refuse_strangers(host: str, *, by_key: bool) -> None:
    """Raises Misconfigured where other machines could reach a service that asks nobody for a key."""
    if not by_key and not is_loopback(host):
        raise Misconfigured(
            f"FLEETFOOT_HOST={host} can be reached from other machines, and there is no keys file. "
            "Set FLEETFOOT_KEYS_FILE (see `fleetfoot keys new`), or FLEETFOOT_HOST=127.0.0.1."
        )


async def serve(app: FastAPI, options: ServingOptions, *, on_start: Callable[[str], None] | None = None) -> None:
    """Serves until SIGINT or SIGTERM; running streams then finish within their grace.

    `on_start` is given the address once connections are accepted. Raises Misconfigured for an address in use.
    """
    serving = server(app, options)
    with listen(options) as listening:
        port = listening.getsockname()[1]
        if on_start is not None:
            on_start(f"http://{f'[{options.host}]' if ':' in options.host else options.host}:{port}")
        await serving.serve([listening])


def listen(options: ServingOptions) -> socket.socket:
    """Takes the address; connections queue from here on. Raises Misconfigured, naming it, where that fails.

    The protocol is named because asyncio turns Nagle's algorithm off only for sockets that say TCP: without it every
    response waits 40 ms for the client's delayed acknowledgement.

    Accepted sockets inherit what is set here: the kernel asks a silent client whether it is still there, and gives up
    one that answers nothing, or takes nothing of what was written, for so long. It keeps little that was not sent yet,
    or a reader's progress would be hidden behind megabytes.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _notice_the_vanished(listening, max(options.vanished, options.patience.stall))
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        listening.bind((options.host, options.port))
        listening.listen(options.backlog)
    except OSError as error:
        listening.close()
        raise Misconfigured(
            f"FLEETFOOT_HOST={options.host}, FLEETFOOT_PORT={options.port}: {error.strerror or error}. "
            "Choose another port, or stop what uses this one."
        ) from error
    return listening


def _notice_the_vanished(listening: socket.socket, seconds: float) -> None:
    """Half of the time in silence, then three probes (tcp(7)); systems without these options use their own times."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", ceil(seconds / 2)),
        ("TCP_KEEPINTVL", ceil(seconds / 6)),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", ceil(seconds * 1000)),
    ):
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends fleetfoot's own lines (each request's is one JSON object) to stderr; the command calls it at its start."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in ("fleetfoot", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level if name == "fleetfoot" else logging.WARNING)
        logger.propagate = False
