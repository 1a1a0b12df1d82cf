"""What passes between a worker and the process that reads its documents: plain JSON and bytes, never pickles.

The reading process has eaten hostile input; nothing that it sends back is executed or trusted with a type.
"""

from __future__ import annotations

import json
import struct
import time
from socket import socket
from typing import Any, cast

from pipeline.errors import InvalidInput, TooLarge, Unparsable
from pipeline.passages import Block, Document, Metadata, Scalar, Upload

_LENGTH = struct.Struct(">Q")
_ERRORS: dict[str, type[InvalidInput]] = {error.code: error for error in (InvalidInput, Unparsable, TooLarge)}


class Closed(Exception):
    """The other side has gone."""


def send(connection: socket, *parts: bytes) -> None:
    """Sends each part with its length before it. Raises TimeoutError, and Closed when nobody listens."""
    try:
        for part in parts:
            connection.sendall(_LENGTH.pack(len(part)))
            connection.sendall(part)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed from error


def receive(connection: socket, most: int, deadline: float | None = None) -> bytes:
    """Receives one part. Raises TimeoutError at `deadline` (monotonic), Closed at the end, TooLarge beyond `most`."""
    (length,) = cast("tuple[int]", _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size, deadline)))
    if length > most:
        raise TooLarge(f"{length:,} bytes were read out of the document; at most {most:,} are taken.")
    return _receive_exactly(connection, length, deadline)


def _receive_exactly(connection: socket, length: int, deadline: float | None) -> bytes:
    buffer = bytearray(length)
    view, filled = memoryview(buffer), 0
    while filled < length:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
        try:
            count = connection.recv_into(view[filled:])
        except ConnectionResetError as error:
            raise Closed from error
        if count == 0:
            raise Closed
        filled += count
    return bytes(buffer)


def pack_upload(upload: Upload, document_id: str) -> tuple[bytes, bytes]:
    """An upload as a JSON header and its content."""
    header = {
        "id": document_id,
        "name": upload.name,
        "media_type": upload.media_type,
        "metadata": dict(upload.metadata),
        "access": upload.access,
        "options": dict(upload.options),
    }
    return _to_json(header), upload.content


def unpack_upload(header: bytes, content: bytes) -> tuple[Upload, str]:
    """The upload and its document's id."""
    said: Any = json.loads(header)
    metadata, access = _metadata(said["metadata"]), tuple(said["access"])
    return Upload(said["name"], content, said["media_type"], metadata, access, said["options"]), said["id"]


def pack_document(document: Document) -> bytes:
    """A document as JSON."""
    fields = {
        "id": document.id,
        "name": document.name,
        "title": document.title,
        "blocks": [(block.text, block.heading, block.page) for block in document.blocks],
        "media_type": document.media_type,
        "language": document.language,
        "metadata": dict(document.metadata),
        "access": document.access,
        "warnings": document.warnings,
    }
    return _to_json({"document": fields})


def pack_error(error: InvalidInput) -> bytes:
    """An error as JSON, by its code."""
    return _to_json({"code": error.code, "message": str(error), "field": error.field})


def unpack_result(content: bytes) -> Document:
    """The document; or raises the error that was packed instead."""
    said: Any = json.loads(content)
    if "code" in said:
        raise _ERRORS.get(said["code"], Unparsable)(said["message"], field=said["field"])
    fields: dict[str, Any] = said["document"]
    blocks = tuple(Block(text, tuple(heading), page) for text, heading, page in fields["blocks"])
    return Document(
        id=fields["id"],
        name=fields["name"],
        title=fields["title"],
        blocks=blocks,
        media_type=fields["media_type"],
        language=fields["language"],
        metadata=_metadata(fields["metadata"]),
        access=tuple(fields["access"]),
        warnings=tuple(map(str, fields["warnings"])),
    )


def _metadata(pairs: dict[str, Scalar | list[Scalar]]) -> Metadata:
    """JSON has no tuples: its lists are the tuples that were sent."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in pairs.items()}


def _to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")
