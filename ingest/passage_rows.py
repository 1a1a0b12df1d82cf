"""Passages as rows of the catalog, and back."""

from __future__ import annotations

import json
from typing import Any

from ingest.database import Record, packed, unpacked
from pipeline.passages import Passage


def passage_row(version_id: int, passage: Passage) -> dict[str, Any]:
    """The row of a version's passage; whose it is and who may see it, the version's own row says."""
    return {
        "version_id": version_id,
        "ordinal": passage.ordinal,
        "id": passage.id,
        "text": passage.text,
        "tokens": passage.tokens,
        "content_hash": passage.content_hash,
        "source": passage.source,
        "title": passage.title,
        "heading": json.dumps(passage.heading, ensure_ascii=False),
        "page": passage.page,
        "language": passage.language,
        "metadata": packed(passage.metadata),
        "parent": passage.parent,
        "start": passage.start,
    }


def passage_of_row(row: Record, access: tuple[str, ...] = ()) -> Passage:
    """From a row of `passages`."""
    return Passage(
        id=row.id,
        document_id=row.id.rpartition(":")[0],
        ordinal=row.ordinal,
        text=row.text,
        tokens=row.tokens,
        content_hash=row.content_hash,
        source=row.source,
        title=row.title,
        heading=tuple(json.loads(row.heading)),
        page=row.page,
        language=row.language,
        metadata=unpacked(row.metadata),
        access=access,
        parent=row.parent,
        start=row.start,
    )
