"""What may enter the catalog: names, metadata, and the id that a document keeps for life."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any

from ingest.access import check_access
from ingest.formats.row_template import reading_options
from pipeline.errors import InvalidInput
from pipeline.passages import Metadata, Upload

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONGEST_NAME = 1024
_LONGEST_METADATA = 64 * 1024


def document_id(tenant: str, collection: str, name: str) -> str:
    """The hex BLAKE2b-96 of who calls what how: the same name in the same collection is the same document."""
    return blake2b(json.dumps([tenant, collection, name]).encode(), digest_size=12).hexdigest()


def content_hash(content: bytes, options: Mapping[str, Any] | None = None) -> str:
    """The hex sha256 of what was sent, and of how it is to be read where that was said."""
    digest = sha256(content)
    if said := reading_options(options or {}):
        digest.update(json.dumps(said, sort_keys=True).encode())
    return digest.hexdigest()


def check_collection(name: str) -> None:
    """Raises InvalidInput for a name that could not stand in a URL or before the @ of a model's name."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"'{name[:80]}' cannot name a collection. Use 1 to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or a digit.",
            field="collection",
        )


def check_uploads(uploads: Sequence[Upload]) -> None:
    """Raises InvalidInput, naming the first upload that cannot be kept and why."""
    if not uploads:
        raise InvalidInput("Nothing was sent. Send at least one document.", field="documents")
    for place, upload in enumerate(uploads):
        where = f"documents[{place}]"
        if not upload.name.strip() or len(upload.name) > _LONGEST_NAME or not _storable(upload.name):
            raise InvalidInput(
                f"The name of {where} must have 1 to {_LONGEST_NAME} characters and no control characters.",
                field=f"{where}.name",
            )
        check_metadata(upload.metadata, f"{where}.metadata")
        check_access(upload.access, f"{where}.access")


def check_metadata(metadata: Metadata, where: str) -> None:
    """Raises InvalidInput unless every value is text, a number, a truth value or a flat list of those."""
    size = 0
    for key, value in metadata.items():
        members = value if isinstance(value, tuple) else (value,)
        for member in members:
            if isinstance(member, float) and not math.isfinite(member):
                raise InvalidInput(f"{where}.{key} is not a finite number.", field=f"{where}.{key}")
            if not isinstance(member, (str, int, float, bool)):  # pyright: ignore[reportUnnecessaryIsInstance]  wire data
                raise InvalidInput(
                    f"{where}.{key} must be text, a number, true, false or a flat list of those.",
                    field=f"{where}.{key}",
                )
            size += len(str(member))
        if not key or not _storable(key) or any(isinstance(m, str) and not _storable(m) for m in members):
            raise InvalidInput(f"{where} has an empty key or control characters.", field=where)
        size += len(key)
    if size > _LONGEST_METADATA:
        raise InvalidInput(
            f"{where} has {size} characters, of {_LONGEST_METADATA} at most. Put long text into the document.",
            field=where,
        )


def _storable(text: str) -> bool:
    """PostgreSQL keeps no NUL, and no database keeps half a surrogate pair."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
