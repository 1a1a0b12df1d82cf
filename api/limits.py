"""How much one request may ask for or bring: all limits of the door, each named in the error that it causes."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes and characters, times in seconds.

    `deadline` is the longest that may be asked for. `first_token_deadline` holds for a chat that names none, and
    `finding_share` is the part of a chat's deadline that finding may use, so that something is left for the model.
    A dry run takes so many `previews` of so many bytes together (`preview`), and each at most `preview_seconds` to be
    read, and as many to be cut.
    """

    body: int = 4 * MIB
    upload: int = 256 * MIB
    file: int = 64 * MIB
    files: int = 1000
    queries: int = 16
    query_characters: int = 8000
    top_k: int = 1000
    token_budget: int = 200_000
    candidates: int = 1000
    depth: int = 500
    collections: int = 16
    deadline: float = 60.0
    total_deadline: float = 3600.0
    first_token_deadline: float = 30.0
    finding_share: float = 0.5
    catalog_deadline: float = 15.0
    upload_deadline: float = 300.0
    preview: int = 32 * MIB
    previews: int = 100
    preview_deadline: float = 30.0
    preview_seconds: float = 10.0
