"""Dry runs: documents are read and cut as workers do it, in two child processes, and nothing of them is kept.

    this process ─┬─ ingest.isolated        parses, under limits
                  └─ ingest.cut_isolated    cuts; it owns the tokenizer

So a process that serves requests loads no parser and no tokenizer for this, and is not held up by either. Both children
are started when somebody first asks.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ingest.frames import Closed, pack_document, receive, send
from ingest.isolation import IsolatedParser, IsolationOptions
from pipeline.chunking import Chunking
from pipeline.errors import Misconfigured, TooLarge, Unparsable
from pipeline.passages import Document, Passage, Upload
from pipeline.ports import Parser
from pipeline.previews import Echo, Preview

_COMMAND = (sys.executable, "-P", "-m", "ingest.cut_isolated")  # -P: nothing is imported from the working directory
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
_STARTING = 60.0  # seconds
_LEAVING = 2.0
_READY = 64  # bytes


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """`seconds` for reading a document, and as many for cutting it; `memory` is each child's address space in bytes.

    `most` bounds what crosses to a child and back, in bytes.
    """

    tokenizer: Path
    default: Chunking
    seconds: float = 10.0
    memory: int = 2 * 2**30
    most: int = 256 * 2**20


class IsolatedPreviewer:
    """Implements Previewer; not for several threads at once. Opened with `open`."""

    def __init__(self, options: PreviewOptions, parser: Parser) -> None:
        self.options = options
        self._parser = parser
        self._cutter: _Cutter | None = None

    @classmethod
    @contextmanager
    def open(cls, options: PreviewOptions) -> Generator[IsolatedPreviewer, None, None]:
        """Ends the children with the block."""
        limits = IsolationOptions(memory=options.memory, seconds=options.seconds)
        with IsolatedParser(limits) as parser:
            opened = cls(options, parser)
            try:
                yield opened
            finally:
                opened.close()

    def close(self) -> None:
        """Ends the process that cuts; a later document would start a new one."""
        if self._cutter is not None:
            self._cutter.end()
            self._cutter = None

    def preview(self, upload: Upload, document_id: str, chosen: Chunking | None, place: int) -> Preview:
        """Implements Previewer. Raises Misconfigured when a child does not even start."""
        document = self._parser.parse(upload, document_id)
        cutter = self._cutter = self._cutter or _Cutter.start(self.options)
        try:
            said = cutter.ask(document, chosen or self.options.default, place)
        except (TimeoutError, Closed, TooLarge) as error:
            self._cutter = None
            cutter.process.kill()
            cutter.end()
            raise Unparsable(
                f"'{upload.name}' was read, and cutting it was given up: it took more than {self.options.seconds:g} s "
                f"or {self.options.memory / 2**20:,.0f} MiB of memory. Split it."
            ) from error
        return Preview(document, _passages(document, said["passages"]), _echoes(said["echoes"]))


class _Cutter:
    """The process that cuts, and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, options: PreviewOptions) -> None:
        self.process = process
        self._connection = connection
        self._options = options

    @classmethod
    def start(cls, options: PreviewOptions) -> _Cutter:
        """Starts it and waits until it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603  the command is ours
                [*_COMMAND, str(theirs.fileno()), str(options.tokenizer), str(options.memory), str(options.most)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the service, which then ends this process in good order
            )
        cutter = cls(process, ours, options)
        try:
            receive(ours, _READY, time.monotonic() + _STARTING)
        except (Closed, TimeoutError) as error:
            raise Misconfigured(
                f"The process that cuts documents ({' '.join(_COMMAND)}) did not start: exit status {cutter.end()}. "
                "Its own message is in the log above."
            ) from error
        return cutter

    def ask(self, document: Document, chunking: Chunking, place: int) -> Any:
        """What it says of a document. Raises TimeoutError, TooLarge, or Closed when the process has died."""
        deadline = time.monotonic() + self._options.seconds
        self._connection.settimeout(self._options.seconds)
        header = json.dumps({"place": place, "chunking": asdict(chunking)}).encode("ascii")
        send(self._connection, header, pack_document(document))
        return json.loads(receive(self._connection, self._options.most, deadline))

    def end(self) -> int:
        """Closes the connection, at which an idle process leaves; a busy one is killed. Returns its status."""
        self._connection.close()
        try:
            return self.process.wait(timeout=_LEAVING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def _passages(document: Document, rows: list[list[Any]]) -> tuple[Passage, ...]:
    return tuple(
        Passage(
            id=f"{document.id}:{ordinal}",
            document_id=document.id,
            ordinal=ordinal,
            text=text,
            tokens=tokens,
            content_hash=content_hash,
            source=document.name,
            title=document.title,
            heading=tuple(heading),
            page=page,
            language=document.language,
        )
        for ordinal, (text, tokens, content_hash, heading, page) in enumerate(rows)
    )


def _echoes(said: dict[str, list[Any]]) -> dict[int, Echo]:
    return {int(ordinal): Echo(document, of, similarity) for ordinal, (document, of, similarity) in said.items()}


def _environment() -> dict[str, str]:
    """As for the process that parses: no keys, and native pools of one thread."""
    rooms = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH", "")
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    pools = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    return {**kept, **pools, "PYTHONPATH": os.pathsep.join(filter(None, (rooms, inherited)))}
