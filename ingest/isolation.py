"""Reading documents in a process of its own, so that a hostile one fails alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.formats.reading import ParsingOptions
from ingest.frames import Closed, pack_upload, receive, send, unpack_result
from pipeline.errors import Misconfigured, TooLarge, Unparsable
from pipeline.passages import Document, Upload

_COMMAND = (sys.executable, "-P", "-m", "ingest.isolated")  # -P: nothing is imported from the working directory
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TZ")
_STARTING = 120.0  # seconds
_LEAVING = 2.0
_OUT_OF_MEMORY = 75  # ingest.isolated.OUT_OF_MEMORY, which is not imported: it brings the parsers
_BYTES_PER_CHARACTER = 12  # at most, in JSON's ASCII form
_OVERHEAD = 2**24


@dataclass(frozen=True, slots=True)
class IsolationOptions:
    """`memory` is address space in bytes; `seconds` for one document, on the wall and of a processor alike.

    After `documents` the process is replaced, so that what parsers leak does not add up.
    """

    memory: int = 2 * 2**30
    seconds: float = 60.0
    documents: int = 500


class IsolatedParser:
    """A Parser in a child process that is started when first needed, reused, and replaced when a document kills it.

    Closed with `close()` or `with`. Safe to call from several threads, one document at a time. It is opened after a
    fork, never before. A plain subprocess, not multiprocessing: a Celery prefork worker is daemonic and may have no
    children of that kind. The child gets none of this process's environment beyond paths and locale: it reads what
    strangers wrote and needs no keys.
    """

    def __init__(
        self,
        options: IsolationOptions | None = None,
        parsing: ParsingOptions | None = None,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        self.options = options or IsolationOptions()
        self.parsing = parsing or ParsingOptions()
        self._command = tuple(command)
        self._child: _Child | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> IsolatedParser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child process; a later document would start a new one."""
        with self._lock:
            self._end()

    def parse(self, upload: Upload, document_id: str) -> Document:
        """As Parsing, and Unparsable also for a document that takes too much time or memory or crashes its parser.

        Raises Misconfigured when the child process does not even start.
        """
        self.parsing.check_size(upload)
        with self._lock:
            child = self._child = self._child or _Child.start(self._command, self.options, self.parsing)
            result = self._asked(child, upload, document_id)
            if child.documents >= self.options.documents:
                self._end()
        return unpack_result(result)

    def _asked(self, child: _Child, upload: Upload, document_id: str) -> bytes:
        try:
            return child.ask(upload, document_id, self.options, self.parsing)
        except TimeoutError:
            self._give_up(child)
            raise self._too_slow(upload) from None
        except TooLarge as error:
            self._give_up(child)
            raise TooLarge(f"'{upload.name}' was given up: {error} Split it.") from None
        except Closed:
            self._child = None
            raise self._killed(upload, child.end()) from None

    def _give_up(self, child: _Child) -> None:
        self._child = None
        child.process.kill()
        child.end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _too_slow(self, upload: Upload) -> Unparsable:
        return Unparsable(
            f"'{upload.name}' was given up: reading it took more than {self.options.seconds:g} s. Split or simplify it."
        )

    def _killed(self, upload: Upload, status: int) -> Unparsable:
        if -status in {signal.SIGXCPU, signal.SIGALRM}:
            return self._too_slow(upload)
        if status == _OUT_OF_MEMORY or -status == signal.SIGKILL:
            return Unparsable(
                f"'{upload.name}' was given up: reading it took more than {self.options.memory / 2**20:,.0f} MiB of "
                "memory. Split or simplify it."
            )
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return Unparsable(
            f"'{upload.name}' was given up: its parser crashed on it ({how}). Export or save it again, or convert it."
        )


class _Child:
    """The process and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self.connection = connection
        self.documents = 0

    @classmethod
    def start(cls, command: Sequence[str], options: IsolationOptions, parsing: ParsingOptions) -> _Child:
        """Starts it and waits until it is ready."""
        ours, theirs = socket.socketpair()
        limits = (options.memory, options.seconds, parsing.content_bytes, parsing.unpacked_bytes, parsing.characters)
        with theirs:
            process = subprocess.Popen(  # noqa: S603  the command is ours
                [*command, str(theirs.fileno()), *map(str, limits)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the worker, which then ends this process in good order
            )
        child = cls(process, ours)
        try:
            receive(ours, _OVERHEAD, time.monotonic() + _STARTING)
        except (Closed, TimeoutError) as error:
            raise Misconfigured(
                f"The process that reads documents ({' '.join(command)}) did not start: exit status {child.end()}. "
                "Its own message is in the log above."
            ) from error
        return child

    def ask(self, upload: Upload, document_id: str, options: IsolationOptions, parsing: ParsingOptions) -> bytes:
        """The packed result. Raises TimeoutError, TooLarge, or Closed when the process has died."""
        deadline = time.monotonic() + options.seconds
        self.documents += 1
        self.connection.settimeout(options.seconds)
        send(self.connection, *pack_upload(upload, document_id))
        return receive(self.connection, _BYTES_PER_CHARACTER * parsing.characters + _OVERHEAD, deadline)

    def end(self) -> int:
        """Closes the connection, at which an idle process leaves; a busy one is killed. Returns its status."""
        self.connection.close()
        try:
            return self.process.wait(timeout=_LEAVING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def _environment() -> dict[str, str]:
    """Where the rooms live stands on this process's path, by the command's doing, and must stand on the child's."""
    rooms = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH", "")
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, (rooms, inherited)))}
