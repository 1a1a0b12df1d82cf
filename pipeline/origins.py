"""Where documents came from, as their owner sees it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OriginKind(StrEnum):
    """What a document is kept in step with."""

    FOLDER = "folder"
    URL = "url"


@dataclass(frozen=True, slots=True)
class Origin:
    """A document that is there, or on its way, and where it came from.

    `root` names the folder that it was synced from, and is empty for a URL; `url` is where a document was last fetched
    from, and is empty for a file. `content_hash` is the hex sha256 of what stands or is on its way, empty while a fetch
    is; `access` are its labels. `checked` is when it was last looked at, in seconds since the epoch.
    """

    document_id: str
    name: str
    kind: OriginKind
    root: str
    url: str
    content_hash: str
    access: tuple[str, ...]
    checked: float


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server called the state of what it sent, and the address that it sent it from; empty where it did not."""

    url: str = ""
    etag: str = ""
    last_modified: str = ""

    def conditions(self, url: str) -> dict[str, str]:
        """Headers of a request that wants an answer only if it is another one; none for another address."""
        said = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in said.items() if value} if url == self.url else {}
