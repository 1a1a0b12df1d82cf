"""A collection that follows a folder: what is new or changed there is sent, what is gone there is removed.

Which documents came from a folder is known to the service, not to a file here: they are named by their paths under a
name of the folder's own (`handbook/leave.md`), and their metadata says so (`synced_from: handbook`). So a sync goes on
from anywhere, two folders in one collection never remove each other's documents, and what came in another way stays.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from fleetfoot.client import Client, Json, Refused
from fleetfoot.finding import Named
from fleetfoot.folder_files import Folder, Listing, Stamp
from fleetfoot.ingesting import Ingested, follow_job, send_files
from fleetfoot.sending import ASKED, Persistence, Sender, hash_of_file
from pipeline.errors import FleetfootError, InvalidInput

SYNCED_FROM = "synced_from"  # the field of the metadata that says which folder a document came from
PAGE = 1000  # documents that are listed at once
REMOVED = 200  # documents that are removed at once: an address of 6 KB, which every proxy lets through
NOT_FOUND = 404
NAME = re.compile(r"[^\x00-\x1f\x7f/][^\x00-\x1f\x7f]{0,99}")


class TooManyRemovals(FleetfootError):
    """More documents would go than somebody has said may go at once."""

    def __init__(self, removed: int, owned: int, at_most: float, name: str) -> None:
        super().__init__(
            f"{removed} of the {owned} documents that came from '{name}' are no longer in the folder, more than "
            f"{at_most:g} % of them. Nothing was sent or removed. If the folder is whole, call again with --yes, or "
            "with a higher --remove-at-most; if it is another folder of that name, give it one of its own with --as."
        )


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """`name` is what the documents' names begin with; `remove_at_most` is in percent of those that came from here."""

    name: str
    access: tuple[str, ...] = ()
    remove_at_most: float = 10.0
    wait: bool = True
    rest: float = 1.0

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or self.name.endswith("/"):
            raise InvalidInput(
                f"'{self.name}' cannot name a folder. Give --as 1 to 100 characters, without a slash at an end.",
                field="--as",
            )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sync would do. `unchanged` are published just so, `send` has what is new, changed, or on its way."""

    send: tuple[Named, ...]
    remove: tuple[tuple[str, str], ...]  # name and id
    unchanged: int
    owned: int
    listing: Listing

    @property
    def anything(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.send or self.remove)

    def json(self) -> Json:
        """For `--dry-run --json`."""
        return {
            "send": [name for name, _ in self.send],
            "remove": [name for name, _ in self.remove],
            "unchanged": self.unchanged,
            **_noticed(self.listing),
        }


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of it; `removed` are the names whose removal was accepted (with `wait`: that are gone)."""

    sent: Ingested
    removed: tuple[str, ...]
    jobs: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    unchanged: int
    listing: Listing = field(default_factory=Listing)

    @property
    def complete(self) -> bool:
        """False where documents failed, or files could not be read."""
        return not self.failed and not self.listing.unreadable

    def json(self) -> Json:
        """For `--json`."""
        return {
            "jobs": [*self.sent.jobs, *self.jobs],
            "counts": self.sent.counts,
            "removed": list(self.removed),
            "unchanged": self.unchanged,
            "failed": [{"name": name, "reason": reason} for name, reason in self.failed],
            **_noticed(self.listing),
        }


class Syncing:
    """One folder and one collection, brought into step as often as somebody asks.

    What it remembers from one time to the next only saves work: hashes of files that have not changed since, and files
    that failed, which are not sent again until they change.
    """

    def __init__(self, client: Client, collection: str, folder: Folder, options: SyncOptions, console: Console) -> None:
        self._client = client
        self._path = f"/v1/collections/{quote(collection, safe='')}/documents"
        self._folder = folder
        self._options = options
        self._console = console
        self._persist = Persistence(options.rest)
        self._sender = Sender(
            client,
            collection,
            access=options.access,
            metadata={SYNCED_FROM: options.name},
            rest=options.rest,
            hash_of=self._hash,
        )
        self._hashes: dict[Path, tuple[Stamp, str]] = {}
        self._stamps: dict[Path, Stamp] = {}
        self._failed: dict[str, Stamp] = {}

    async def plan(self) -> Plan:
        """Compares folder and collection; changes nothing."""
        listing = await self._folder.settled()
        self._stamps = {self._folder.root / path: stamp for path, stamp in listing.files.items()}
        self._hashes = {file: known for file, known in self._hashes.items() if file in self._stamps}
        owned = [document async for document in self._owned()]
        below = len(self._options.name) + 1
        gone = [(each["name"], each["id"]) for each in owned if not listing.may_be_there(each["name"][below:])]
        files = [(f"{self._options.name}/{path}", self._folder.root / path) for path in listing.files]
        wanted = [(name, file) for name, file in files if self._failed.get(name) != self._stamps[file]]
        published = await self._published(wanted)
        send = tuple((name, file) for name, file in wanted if name not in published)
        return Plan(send, tuple(sorted(gone)), len(published), len(owned), listing)

    def check(self, plan: Plan) -> None:
        """Raises TooManyRemovals: an empty or unmounted folder does not empty a collection."""
        if len(plan.remove) * 100 > plan.owned * self._options.remove_at_most:
            raise TooManyRemovals(len(plan.remove), plan.owned, self._options.remove_at_most, self._options.name)

    async def carry_out(self, plan: Plan) -> Synced:
        """Sends first, and then removes: what was renamed is found all the time."""
        wait, rest = self._options.wait, self._options.rest
        sent = Ingested((), {}, (), None)
        if plan.send:
            sent = await send_files(self._client, self._sender, plan.send, self._console, wait=wait, rest=rest)
            reasons, files = dict(sent.failed), dict(plan.send)
            self._failed |= {name: self._stamps[files[name]] for name in reasons if name in files}
        removed, jobs, failed = list[str](), list[str](), list(sent.failed)
        for start in range(0, len(plan.remove), REMOVED):
            some = plan.remove[start : start + REMOVED]
            async for job in self._remove([id_ for _, id_ in some]):
                done = await follow_job(self._client, job, self._console, wait=wait, rest=rest)
                jobs += done.jobs
                failed += done.failed
            removed += [name for name, _ in some]
        there = {name for name, _ in failed}
        return Synced(
            sent,
            tuple(name for name in removed if name not in there),
            tuple(jobs),
            tuple(failed),
            plan.unchanged,
            plan.listing,
        )

    async def _owned(self) -> AsyncGenerator[Json]:
        """The published documents that came from this folder."""
        after = ""
        while True:
            asked = f"{self._path}?limit={PAGE}" + (f"&after={quote(after, safe='')}" if after else "")
            try:
                page = await self._client.get(asked)
            except Refused as refusal:
                if refusal.status != NOT_FOUND:
                    raise
                return  # the collection is made by its first document
            for each in page["data"]:
                if each["metadata"].get(SYNCED_FROM) == self._options.name and self._is_below(each["name"]):
                    yield each
            if page["next"] is None:
                return
            after = page["next"]

    def _is_below(self, name: str) -> bool:
        return name.startswith(f"{self._options.name}/")

    async def _published(self, files: Sequence[Named]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(files), ASKED):
            for earlier in await self._sender.earlier(files[start : start + ASKED]):
                found |= set(earlier.names) if earlier.job is None else set()
        return found

    async def _remove(self, ids: Sequence[str]) -> AsyncGenerator[Json]:
        """Jobs that remove them; somebody may have removed some of them since they were listed."""
        asked = "&".join(f"id={quote(id_, safe='')}" for id_ in ids)
        try:
            yield await self._persist(lambda: self._client.delete(f"{self._path}?{asked}"))
        except Refused as refusal:
            if refusal.status != NOT_FOUND:
                raise
            if len(ids) > 1:
                half = len(ids) // 2
                for part in (ids[:half], ids[half:]):
                    async for job in self._remove(part):
                        yield job

    def _hash(self, file: Path) -> str:
        stamp = self._stamps[file]
        known = self._hashes.get(file)
        if known is None or known[0] != stamp:
            known = self._hashes[file] = (stamp, hash_of_file(file))
        return known[1]


def _noticed(listing: Listing) -> Json:
    return {
        "left": sorted(listing.left),
        "unreadable": [{"path": path, "reason": reason} for path, reason in sorted(listing.unreadable.items())],
    }
