"""Server-sent events, read from bytes as they come off the socket.

The format is the WHATWG HTML standard's, section 9.2.6 (event stream interpretation): lines end with LF, CRLF or CR,
a blank line ends an event, a line that begins with a colon is a comment. Everything stays in bytes until an event is
whole, so a character cut in two by the network never matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event grew over the limit without a blank line: this is no event stream, or not a sane one."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its data lines joined by LF, and its name, empty where the stream gives none."""

    data: bytes
    name: bytes = b""

    @property
    def done(self) -> bool:
        """Whether this is OpenAI's end mark, which is no JSON."""
        return self.data == b"[DONE]"


class EventReader:
    """Feed it chunks cut anywhere; it gives back the events that they completed, and keeps the rest.

    `limit` bounds the bytes of one event.
    """

    def __init__(self, limit: int = 4 * 1024 * 1024) -> None:
        self.limit = limit
        self._rest = b""
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events completed by `chunk`. Raises EventTooLarge."""
        data = self._rest + chunk if self._rest else chunk
        if not self._begun:
            if len(data) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(data):
                self._rest = data
                return
            data, self._begun = data.removeprefix(BYTE_ORDER_MARK), True
        held = b""
        if b"\r" in data:
            if data.endswith(b"\r"):  # perhaps the first half of a CRLF
                data, held = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        whole, blank, rest = data.rpartition(b"\n\n")
        self._rest = rest + held
        if len(self._rest) > self.limit:
            raise EventTooLarge(f"An event of the stream is over {self.limit} bytes.")
        if blank:
            yield from _events(whole)

    def end(self) -> Iterator[Event]:
        """The event that the stream ended in, if any: some servers leave out the last blank line."""
        rest, self._rest = self._rest, b""
        yield from _events(rest.replace(b"\r", b"\n").strip(b"\n"))


def _events(whole: bytes) -> Iterator[Event]:
    for block in whole.split(b"\n\n"):
        if block.startswith(b"data: ") and b"\n" not in block:  # what model servers send, nearly always
            yield Event(block[6:])
        elif block:
            yield from _event_of_lines(block)


def _event_of_lines(block: bytes) -> Iterator[Event]:
    lines: list[bytes] = []
    name = b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
        elif field == b"error":  # older llama.cpp servers name the field after what happened
            lines.append(value)
            name = b"error"
    if lines:
        yield Event(b"\n".join(lines), name)
