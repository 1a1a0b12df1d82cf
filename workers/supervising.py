"""`fleetfoot work`: the three Celery workers as children, and the sweep in between.

    supervisor ─┬─ python -m workers parse    ── a few processes that read and cut
                ├─ python -m workers encode   ── one process that owns the model, encodes and publishes
                ├─ python -m workers compact  ── one process that makes new bases and frees space
                └─ the sweep, in a thread

This process imports no native library, and neither do the three parents; see `assembly.py`. A child that ends by itself
is started again, later each time, and after a few times in a row the supervisor gives up and says so.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from pydantic import SecretStr

from ingest.addresses import Addresses
from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.nudging import Announcer, Listener
from ingest.webhooks import Webhooks
from pipeline.errors import FleetfootError, Misconfigured
from workers.assembly import catalog_options, check_model, webhook_options
from workers.delivering import delivering
from workers.settings import WorkerSettings
from workers.sweeping import Sweep
from workers.tasks import Role, application, send, send_tidy

_RESTARTS = 5  # within …
_RESTARTS_SECONDS = 120.0
_FIRST_REST = 0.5  # seconds before the first restart; doubled each time
_log = logging.getLogger(__name__)

Event = Role | FleetfootError | None  # a child that ended, what cannot go on, the end


def work(settings: WorkerSettings | None = None) -> None:
    """Works until SIGTERM or SIGINT; then running tasks finish within the grace time, and what is left is returned.

    Raises Misconfigured for a setting that cannot work, FleetfootError when a worker keeps ending by itself.
    """
    settings = settings or WorkerSettings.read()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    check_model(settings)
    webhooks = webhook_options(settings)
    events: SimpleQueue[Event] = SimpleQueue()
    with _signals(events), ExitStack() as opened:
        catalog = opened.enter_context(Catalog.open(catalog_options(settings)))
        backlog = Backlog(catalog)
        opened.callback(backlog.recover)  # last of all: what killed children held is free at once
        announcer = opened.enter_context(Announcer.open(settings.redis_url))
        opened.enter_context(_sweeping(settings, backlog, announcer, events))
        if webhooks is not None:
            addresses = Addresses(allow_private=settings.allow_private_addresses)
            opened.enter_context(delivering(Webhooks(catalog, webhooks, addresses), settings.sweep_seconds))
        crew = opened.enter_context(Crew.open(settings, events))
        crew.attend()


class Crew:
    """The children: started, started again, ended."""

    def __init__(self, settings: WorkerSettings, events: SimpleQueue[Event]) -> None:
        self._settings = settings
        self._events = events
        self._ending = False
        self._processes: dict[Role, subprocess.Popen[bytes]] = {}
        self._ended: dict[Role, deque[float]] = {role: deque(maxlen=_RESTARTS) for role in Role}

    @classmethod
    @contextmanager
    def open(cls, settings: WorkerSettings, events: SimpleQueue[Event]) -> Generator[Crew, None, None]:
        """Starts one worker of each role, and ends them with the block, gently first."""
        crew = cls(settings, events)
        try:
            for role in Role:
                crew.start(role)
            yield crew
        finally:
            crew.end()

    def start(self, role: Role) -> None:
        """Starts a child in a session of its own, so that a Ctrl-C in the terminal reaches only us."""
        process = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-P", "-m", "workers", role],
            env=_environment(self._settings),
            stdin=subprocess.PIPE,  # never written to: its end tells the child that we are gone
            start_new_session=True,
        )
        self._processes[role] = process
        threading.Thread(target=self._watch, args=(role, process), daemon=True).start()
        _log.info("Started the %s worker, process %d.", role, process.pid)

    def attend(self) -> None:
        """Restarts children until the end is asked for. Raises FleetfootError when one keeps ending."""
        while (event := self._events.get()) is not None:
            if isinstance(event, FleetfootError):
                raise event
            if self._status(event) == os.EX_CONFIG:
                raise Misconfigured(f"The {event} worker cannot start; the line above says why.")
            ended = self._ended[event]
            now = time.monotonic()
            if len(ended) == _RESTARTS and now - ended[0] < _RESTARTS_SECONDS:
                raise FleetfootError(
                    f"The {event} worker ended {_RESTARTS + 1} times within {_RESTARTS_SECONDS:.0f} seconds. The "
                    "lines above say why."
                )
            ended.append(now)
            lately = sum(now - then < _RESTARTS_SECONDS for then in ended)
            rest = _FIRST_REST * 2 ** (lately - 1)
            _log.error("The %s worker ended with status %s; again in %.1f s.", event, self._status(event), rest)
            if self._told_to_end(rest):
                return
            self.start(event)

    def end(self) -> None:
        """Asks all to finish their tasks, waits the grace time, and kills what is left."""
        self._ending = True
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + self._settings.grace_seconds
        for role, process in self._processes.items():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _log.warning("The %s worker did not finish in time; its task is returned.", role)
            _kill_session(process)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _told_to_end(self, seconds: float) -> bool:
        """Rests, unless the end is asked for; what else happens meanwhile is looked at afterwards."""
        until, later = time.monotonic() + seconds, list[Event]()
        try:
            while (left := until - time.monotonic()) > 0:
                event = self._events.get(timeout=left)
                if event is None:
                    return True
                later.append(event)
        except Empty:
            pass
        for event in later:
            self._events.put(event)
        return False

    def _watch(self, role: Role, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if not self._ending:
            self._events.put(role)

    def _status(self, role: Role) -> int | None:
        return self._processes[role].returncode


@contextmanager
def _sweeping(
    settings: WorkerSettings, backlog: Backlog, announcer: Announcer, events: SimpleQueue[Event]
) -> Generator[None, None, None]:
    """Runs the sweep in a thread until the block ends."""
    over = threading.Event()
    app = application(settings)
    with Listener.open(settings.redis_url, settings.sweep_seconds) as listener:
        sweep = Sweep(
            backlog,
            listener,
            announcer,
            lambda due: send(app, due),
            lambda: send_tidy(app),
            {Role.PARSE: settings.parsers, Role.ENCODE: 1, Role.COMPACT: 1},
            settings.sweep_seconds,
        )

        def run() -> None:
            try:
                sweep.run(over)
            except Exception as error:  # noqa: BLE001  the thread's door: the main thread ends the program
                _log.exception("The sweep ended.")
                events.put(FleetfootError(f"The sweep ended: {error}. The lines above say where."))

        thread = threading.Thread(target=run, name="sweep", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            announcer.moved(())  # wakes it up
            thread.join(settings.sweep_seconds + 1)
    app.close()


@contextmanager
def _signals(events: SimpleQueue[Event]) -> Generator[None, None, None]:
    """Turns SIGTERM and SIGINT into the end, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        raise Misconfigured("`work` ends by signals, so it runs in the main thread of its process.")

    def end(_: int, __: FrameType | None) -> None:
        events.put(None)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment(settings: WorkerSettings) -> dict[str, str]:
    """The children read the same settings, but for secrets, find the rooms, and start native pools of one thread."""
    said = {f"FLEETFOOT_{name.upper()}": value for name, value in settings if value is not None}
    secrets = {name for name, value in said.items() if isinstance(value, SecretStr)}
    given = {name: str(value) for name, value in said.items()}
    rooms = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(part for part in (rooms, os.environ.get("PYTHONPATH", "")) if part)
    pools = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    every = {**pools, "TOKENIZERS_PARALLELISM": "false", **os.environ, **given, "PYTHONPATH": path}
    return {name: value for name, value in every.items() if name not in secrets}


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Ends what a worker has left behind: pool processes and their parsers share its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
