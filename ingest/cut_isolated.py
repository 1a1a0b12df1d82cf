"""The process that cuts documents for `Cutter`: the tokenizer and the chunkers stay out of a process that serves.

    python -m ingest.cut_isolated DESCRIPTOR TOKENIZER MEMORY MOST

DESCRIPTOR is an inherited socket, MEMORY is address space and MOST the longest document, in bytes. Asked is a header
(place in the request, chunking) and a document, as JSON; answered are passages, and what they repeat of those that were
cut before in the same request.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Any, NoReturn

from ingest.chunkers import ChosenChunkers
from ingest.echoes import Echoes
from ingest.frames import Closed, receive, send, unpack_result
from pipeline.chunking import Chunking, Cut
from pipeline.passages import Passage
from pipeline.ports import Chunkers
from pipeline.previews import Echo

READY = b"ready"
_LONGEST_HEADER = 4096


def main(arguments: Sequence[str]) -> int:
    """Serves until the other side closes; returns the exit status."""
    descriptor, tokenizer, memory, most = arguments
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), hard))
    chunkers = ChosenChunkers.open(Path(tokenizer), Chunking())
    with socket(fileno=int(descriptor)) as connection:
        try:
            send(connection, READY)
            _serve(connection, chunkers, int(most))
        except Closed:
            return 0


def _serve(connection: socket, chunkers: Chunkers, most: int) -> NoReturn:
    heard = Echoes()
    while True:
        header: Any = json.loads(receive(connection, _LONGEST_HEADER))
        document = unpack_result(receive(connection, most))
        if header["place"] == 0:
            heard = Echoes()
        made = chunkers.chunker(_chunking(header["chunking"])).chunk(document)
        send(connection, packed(made, heard.hear(header["place"], made)))


def packed(passages: Sequence[Passage], echoes: dict[int, Echo]) -> bytes:
    """Passages as rows, without what they have of their document."""
    rows = [[p.text, p.tokens, p.content_hash, list(p.heading), p.page] for p in passages]
    found = {ordinal: [echo.document, echo.ordinal, echo.similarity] for ordinal, echo in echoes.items()}
    return json.dumps({"passages": rows, "echoes": found}, separators=(",", ":")).encode("ascii")


def _chunking(said: dict[str, Any] | None) -> Chunking | None:
    return None if said is None else Chunking(Cut(said["chunker"]), said["tokens"], said["overlap"], said["minimum"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
