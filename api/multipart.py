"""Multipart bodies, read as they come: each file is held once, in memory, and refused at its limit.

The parser is python-multipart's; what is added here are the limits and the names.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import cast

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.limits import Limits
from ingest.formats.row_template import check_reading_options
from pipeline.errors import InvalidInput, TooLarge
from pipeline.passages import Metadata, Scalar, Upload

METADATA, ACCESS, OPTIONS = "metadata", "access", "options"


async def uploads_of_parts(content_type: str, body: AsyncIterator[bytes], limits: Limits) -> list[Upload]:
    """The files of a form, under any field names; the fields `metadata` and `options` (JSON objects) and `access` (a
    JSON list of labels) hold for all of them.

    Raises InvalidInput for a form that cannot be read and TooLarge for a file or a number of files over its limit.
    """
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise InvalidInput(
            "The Content-Type multipart/form-data has no boundary. Let the HTTP client set the header.", field="body"
        )
    parts = _Parts(limits)
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": parts.begin,
                "on_header_field": parts.header_name,
                "on_header_value": parts.header_value,
                "on_header_end": parts.header_end,
                "on_headers_finished": parts.headers_finished,
                "on_part_data": parts.data,
                "on_part_end": parts.end,
                "on_end": parts.finish,
            },
        )
        async for chunk in body:
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise InvalidInput(f"The multipart body cannot be read: {error}.", field="body") from error
    if not parts.complete:
        raise InvalidInput("The multipart body ends in the middle. Send it again, whole.", field="body")
    return parts.uploads()


class _Parts:
    def __init__(self, limits: Limits) -> None:
        self.complete = False
        self._limits = limits
        self._files: list[tuple[str, str | None, bytes]] = []
        self._metadata: Metadata = {}
        self._access: tuple[str, ...] = ()
        self._options: Mapping[str, Scalar] = {}
        self._name = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._content = bytearray()
        self._field = ""
        self._file: str | None = None

    def begin(self) -> None:
        self._headers = {}
        self._content = bytearray()

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._field = options.get(b"name", b"").decode(errors="replace")
        name = options.get(b"filename")
        self._file = None if name is None else name.decode(errors="replace")
        if self._file is not None and len(self._files) >= self._limits.files:
            raise TooLarge(f"At most {self._limits.files} files are taken at once. Send the rest by another request.")

    def data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]
        if len(self._content) > self._limits.file:
            raise TooLarge(
                f"The file '{self._file or self._field}' is over {self._limits.file} bytes, the limit for one file. "
                "Split it.",
                field=f"documents[{len(self._files)}]",
            )

    def end(self) -> None:
        if self._file is not None:
            declared = self._headers.get(b"content-type")
            self._files.append((self._file, declared.decode("latin-1") if declared else None, bytes(self._content)))
        elif self._field == METADATA:
            self._metadata = metadata_of(bytes(self._content))
        elif self._field == ACCESS:
            self._access = access_of(bytes(self._content))
        elif self._field == OPTIONS:
            self._options = options_of(bytes(self._content))
        else:
            raise InvalidInput(
                f"The form field '{self._field}' is neither a file nor '{METADATA}', '{ACCESS}' or '{OPTIONS}'. Send "
                "files with a filename.",
                field=self._field,
            )

    def finish(self) -> None:
        self.complete = True

    def uploads(self) -> list[Upload]:
        alike = (self._metadata, self._access, self._options)
        return [Upload(name, content, media_type, *alike) for name, media_type, content in self._files]


def metadata_of(content: bytes) -> Metadata:
    """The metadata field of a form. Raises InvalidInput unless it is a JSON object of plain values."""
    try:
        given = json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"The form field '{METADATA}' is not JSON: {error}.", field=METADATA) from error
    if not isinstance(given, dict):
        raise InvalidInput(f"The form field '{METADATA}' must be a JSON object.", field=METADATA)
    return frozen(cast("dict[str, Scalar | list[Scalar]]", given))


def access_of(content: bytes) -> tuple[str, ...]:
    """The labels in the access field of a form. Raises InvalidInput unless it is a JSON list of texts."""
    try:
        given: object = json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"The form field '{ACCESS}' is not JSON: {error}.", field=ACCESS) from error
    labels = cast("list[object]", given) if isinstance(given, list) else [given]
    if not isinstance(given, list) or not all(isinstance(label, str) for label in labels):
        raise InvalidInput(f"The form field '{ACCESS}' must be a JSON list of labels, as [\"hr\"].", field=ACCESS)
    return tuple(cast("list[str]", labels))


def options_of(content: bytes) -> Mapping[str, Scalar]:
    """How the files of a form are to be read. Raises InvalidInput unless it is a JSON object of known options."""
    try:
        given: object = json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"The form field '{OPTIONS}' is not JSON: {error}.", field=OPTIONS) from error
    if not isinstance(given, dict):
        raise InvalidInput(f"The form field '{OPTIONS}' must be a JSON object.", field=OPTIONS)
    options = cast("dict[str, Scalar]", given)
    check_reading_options(options, OPTIONS)
    return options


def frozen(metadata: dict[str, Scalar | list[Scalar]]) -> Metadata:
    """JSON's lists as the tuples that values are made of."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in metadata.items()}
