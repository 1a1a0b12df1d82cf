"""The Celery application and its tasks, each of one call.

    fleetfoot.parse      (collection id)   queue fleetfoot-parse    as many processes as there are parsers
    fleetfoot.encode     (collection id)   queue fleetfoot-encode   one process, which owns the model
    fleetfoot.publish    (collection id)   queue fleetfoot-encode
    fleetfoot.compact    (collection id)   queue fleetfoot-compact  one process, of low priority
    fleetfoot.tidy       ()                queue fleetfoot-compact

Compaction has a process of its own, as it takes minutes where there are a million passages: neither encoding nor
publishing waits for it.

A message says that a collection is worth looking at; which documents, the catalog says. So a message may be lost,
come twice or come late without harm, and a task that fails is not retried by Celery: the sweep sends it again when its
rows have rested, which also works after Redis has lost everything.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false, reportUnusedFunction=false
# (Celery has no types)

from __future__ import annotations

import logging
import os
import platform
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from enum import StrEnum
from typing import Any, Generic, TypeVar

from celery import Celery, signals  # type: ignore[import-untyped]  # Celery has no types
from kombu.entity import Exchange, Queue

from ingest.backlog import Due, Step
from ingest.leases import LostLease
from pipeline.errors import Misconfigured
from workers.assembly import Compactor, Encoder, Reader
from workers.settings import WorkerSettings

O = TypeVar("O")  # noqa: E741  what is opened
_log = logging.getLogger(__name__)


class Role(StrEnum):
    """A kind of worker process, and its queue."""

    PARSE = "parse"
    ENCODE = "encode"
    COMPACT = "compact"

    @property
    def queue(self) -> str:
        """The Redis list that its messages lie in."""
        return f"fleetfoot-{self}"


ROLE_OF = {
    Step.PARSE: Role.PARSE,
    Step.ENCODE: Role.ENCODE,
    Step.PUBLISH: Role.ENCODE,
    Step.COMPACT: Role.COMPACT,
}


def application(settings: WorkerSettings) -> Any:
    """A configured Celery application without tasks: enough to send."""
    app = Celery("fleetfoot", broker=settings.redis_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        result_backend=None,
        # Without an exchange of its own a queue needs no binding in Redis, and survives FLUSHALL.
        task_queues=[_queue(role) for role in Role],
        task_default_queue=Role.PARSE.queue,
        task_create_missing_queues=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        broker_transport_options={"visibility_timeout": 3600},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=2.0,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_soft_shutdown_timeout=settings.grace_seconds,
        worker_proc_alive_timeout=120.0,  # a model may take a while to open
    )
    return app


def _queue(role: Role) -> Any:
    entity: Any = Queue
    exchange: Any = Exchange
    return entity(role.queue, exchange(""), routing_key=role.queue)


def send(app: Any, due: Due) -> None:
    """Sends the nudge for what is due. Raises kombu's OperationalError when the broker is away."""
    app.send_task(
        f"fleetfoot.{due.step}",
        args=[due.collection_id],
        queue=ROLE_OF[due.step].queue,
        retry=False,
        ignore_result=True,
    )


def send_tidy(app: Any) -> None:
    """Asks for the space of what nobody can reach any more. Raises kombu's OperationalError when the broker is away."""
    app.send_task("fleetfoot.tidy", queue=Role.COMPACT.queue, retry=False, ignore_result=True)


def parsing(app: Any, settings: WorkerSettings) -> Child[Reader]:
    """Adds the tasks of the parse queue."""
    child = Child(lambda: Reader.open(settings))

    def parse(collection_id: str) -> None:
        child.opened.parsing.parse(collection_id)

    app.task(parse, name="fleetfoot.parse", max_retries=0)
    return child


def encoding(app: Any, settings: WorkerSettings) -> Child[Encoder]:
    """Adds the tasks of the encode queue."""
    child = Child(lambda: Encoder.open(settings))

    def encode(collection_id: str) -> None:
        child.opened.encoding.encode(collection_id)

    def publish(collection_id: str) -> None:
        child.opened.publishing.publish(collection_id)

    app.task(encode, name="fleetfoot.encode", max_retries=0)
    app.task(publish, name="fleetfoot.publish", max_retries=0, throws=(LostLease,))
    return child


def compacting(app: Any, settings: WorkerSettings) -> Child[Compactor]:
    """Adds the tasks of the compact queue."""
    child = Child(lambda: Compactor.open(settings))

    def compact(collection_id: str) -> None:
        child.opened.compact(collection_id)

    def tidy() -> None:
        child.opened.tidy()

    app.task(compact, name="fleetfoot.compact", max_retries=0, throws=(LostLease,))
    app.task(tidy, name="fleetfoot.tidy", max_retries=0)
    return child


_TASKS_OF: Mapping[Role, Callable[[Any, WorkerSettings], Child[Any]]] = {
    Role.PARSE: parsing,
    Role.ENCODE: encoding,
    Role.COMPACT: compacting,
}


class Child(Generic[O]):
    """What a pool process has opened; in the parent, nothing."""

    def __init__(self, opener: Callable[[], AbstractContextManager[O]]) -> None:
        self._opener = opener
        self._stack = ExitStack()
        self._refusals: tuple[int, int] | None = None
        self._opened: O | None = None

    @property
    def opened(self) -> O:
        """Only in a pool process, and only after it has started."""
        if self._opened is None:
            raise RuntimeError("The stages of this process are not open; its log says why.")
        return self._opened

    def open_after_fork(self) -> None:
        """From now on each pool process opens when it starts, and closes when it ends."""
        self._refusals = os.pipe()
        os.set_blocking(self._refusals[0], False)
        signals.worker_process_init.connect(self._open, weak=False)
        signals.worker_process_shutdown.connect(self._close, weak=False)

    def refused(self) -> bool:
        """In the parent: whether a pool process said that its settings cannot work."""
        try:
            return self._refusals is not None and os.read(self._refusals[0], 1) != b""
        except BlockingIOError:
            return False

    def _open(self, **_: Any) -> None:
        try:
            self._opened = self._stack.enter_context(self._opener())
        except Exception as error:
            if isinstance(error, Misconfigured):
                _log.error("This worker cannot start: %s", error)
                os.write(self._refusals[1] if self._refusals else 2, b"!")
            else:
                _log.exception("This worker cannot start.")
            os.kill(os.getppid(), signal.SIGTERM)  # else the pool would start one process after the other
            raise

    def _close(self, **_: Any) -> None:
        self._stack.close()


def run(settings: WorkerSettings, role: Role) -> int:
    """Runs the Celery worker of one role in this process until SIGTERM, and returns its exit status.

    That is EX_CONFIG when a setting cannot work, so that nobody tries again.
    """
    signals.setup_logging.connect(_keep_logging, weak=False)
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # it tells of every instruction set that is not there
    app = application(settings)
    child = _TASKS_OF[role](app, settings)
    child.open_after_fork()
    worker = app.Worker(
        hostname=f"{role}@{platform.node()}",
        queues=[role.queue],
        concurrency=settings.parsers if role is Role.PARSE else 1,
        loglevel=settings.log_level,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    return os.EX_CONFIG if child.refused() else int(worker.exitcode or 0)


def _keep_logging(**_: Any) -> None:
    """Celery leaves logging as it finds it when somebody answers this signal."""
