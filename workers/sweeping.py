"""The sweep: finds what the catalog says is due and nudges whoever can do it.

It blocks on a word from the API or from a worker, and looks by itself every few seconds, so that no message is needed
for anything to be done. The queues in Redis are kept short: there is no use in more nudges than hands.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from ingest.backlog import Backlog, Due, Step
from ingest.nudging import Announcer, Listener
from ingest.working import BatchOptions
from pipeline.errors import Unavailable
from workers.tasks import ROLE_OF, Role

_AWAY = (BrokerError, RedisError, Unavailable, OSError)
_TASK = BatchOptions().parsed.items  # what one nudge to parse takes
_TIDY_SECONDS = 60.0
_log = logging.getLogger(__name__)


class Sweep:
    """`send` sends one nudge, `send_tidy` one to free space; `hands` is how many processes each role has."""

    def __init__(
        self,
        backlog: Backlog,
        listener: Listener,
        announcer: Announcer,
        send: Callable[[Due], None],
        send_tidy: Callable[[], None],
        hands: Mapping[Role, int],
        every: float,
    ) -> None:
        self._backlog = backlog
        self._listener = listener
        self._announcer = announcer
        self._send = send
        self._send_tidy = send_tidy
        self._hands = hands
        self._every = every
        self._served: dict[tuple[Step, str], int] = {}
        self._turn = 0

    def run(self, over: threading.Event) -> None:
        """Sweeps until `over` is set. What is away is waited for; anything else is raised."""
        tidied = -_TIDY_SECONDS
        while not over.is_set():
            try:
                self.once()
                if time.monotonic() - tidied >= _TIDY_SECONDS:
                    self.tidy()
                    tidied = time.monotonic()
                self._listener.heard(self._every)
            except _AWAY as error:
                reason = error.detail if isinstance(error, Unavailable) else str(error)
                _log.warning("The sweep waits: %s: %s", type(error).__name__, reason)
                over.wait(self._every)

    def once(self) -> None:
        """Recovers what the dead have left, and sends as many nudges as there are hands for.

        Publishing comes first; then, in turn, the collections that were served longest ago.
        """
        if failed := self._backlog.recover():
            self._announcer.moved(failed)
        due = self._backlog.due()
        room = {role: 2 * hands - self._listener.waiting(role.queue) for role, hands in self._hands.items()}
        self._turn += 1
        waiting = deque(sorted(due, key=lambda each: (each.step is not Step.PUBLISH, self._served.get(_key(each), 0))))
        while waiting:
            each = waiting.popleft()
            role = ROLE_OF[each.step]
            if room[role] <= (-1 if each.step is Step.PUBLISH else 0):  # nudges to encode never keep publishing out
                continue
            self._send(each)
            room[role] -= 1
            self._served[_key(each)] = self._turn
            if each.step is Step.PARSE and each.items > _TASK:
                waiting.append(replace(each, items=each.items - _TASK))

    def tidy(self) -> None:
        """Has the space freed of what nobody can reach any more, unless that was asked for already."""
        if not self._listener.waiting(Role.COMPACT.queue):
            self._send_tidy()


def _key(due: Due) -> tuple[Step, str]:
    return due.step, due.collection_id
