"""The process that reads documents for `IsolatedParser`: one after the other, each within its limits.

    python -m ingest.isolated DESCRIPTOR MEMORY SECONDS CONTENT UNPACKED CHARACTERS

DESCRIPTOR is an inherited socket, the others are limits as in IsolationOptions and ParsingOptions. A document that is
too much kills this process and nothing else.
"""

from __future__ import annotations

import logging
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from math import ceil
from socket import socket

from ingest.formats.reading import ParsingOptions
from ingest.frames import Closed, pack_document, pack_error, receive, send, unpack_upload
from pipeline.errors import InvalidInput
from pipeline.ports import Parser

OUT_OF_MEMORY = 75
"""Exit status."""

READY = b"ready"

_LONGEST_HEADER = 16 * 2**20


def main(arguments: Sequence[str], parser: Callable[[ParsingOptions], Parser]) -> int:
    """Serves until the other side closes; returns the exit status."""
    descriptor, memory, seconds, content, unpacked, characters = arguments
    options = ParsingOptions(int(content), int(unpacked), int(characters))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_AS, int(memory))
    with socket(fileno=int(descriptor)) as connection:
        try:
            send(connection, READY)
            while True:
                _serve_one(connection, parser(options), float(seconds), options.content_bytes)
        except Closed:
            return 0
        except MemoryError:
            return OUT_OF_MEMORY


def _serve_one(connection: socket, parser: Parser, seconds: float, most: int) -> None:
    """`seconds` bounds processor time; twice that on the wall is for when the parent, whose limit is less, has died."""
    upload, document_id = unpack_upload(receive(connection, _LONGEST_HEADER), receive(connection, most))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, ceil(used.ru_utime + used.ru_stime + seconds))
    signal.alarm(ceil(2 * seconds))
    try:
        result = pack_document(parser.parse(upload, document_id))
    except InvalidInput as error:
        result = pack_error(error)
    signal.alarm(0)
    send(connection, result)


def _lower(kind: int, value: int) -> None:
    """Sets the soft limit, never above the hard one that this process was started under."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


if __name__ == "__main__":
    from ingest.parsing import Parsing

    logging.disable(logging.CRITICAL)  # libraries say a line for each oddity of a file, of which it may have millions
    sys.exit(main(sys.argv[1:], Parsing))
