"""The files of a folder that others write to: which of them count, which are whole, and of which nothing is known.

Hidden files and folders and what `.fleetfootignore` names do not count. A link counts where it leads to a file that
itself counts; linked folders are not walked into, since what is in them is here under its own name or not at all. A
file that somebody is still writing is left for a later look, and one that cannot be read is not taken for removed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from pipeline.errors import InvalidInput

IGNORE_FILE = ".fleetfootignore"
LOOK_SECONDS = 1.0  # a file younger than this is looked at again after as long
LONGEST_NAME = 900  # characters; with the name of its folder a document's name may have 1024


@dataclass(frozen=True, slots=True)
class Stamp:
    """What differs between two looks when a file was written to in between."""

    size: int
    changed_ns: int
    inode: int


@dataclass(slots=True)
class Listing:
    """What one look has found, by path below the folder.

    `left` are still being written, `unreadable` has reasons; paths in it that end with a slash are folders.
    """

    files: dict[str, Stamp] = field(default_factory=dict[str, Stamp])
    left: set[str] = field(default_factory=set[str])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])

    def may_be_there(self, path: str) -> bool:
        """False only where it is sure that there is no such file any more, or that it does not count."""
        if path in self.files or path in self.left or path in self.unreadable:
            return True
        return any(f"{parent}/" in self.unreadable for parent in PurePosixPath(path).parents)


class Folder:
    """A folder, looked at as often as somebody likes. `now` is in seconds since 1970, as files' times are."""

    def __init__(
        self,
        root: Path,
        *,
        now: Callable[[], float] = time.time,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        scan: Callable[[Path], Iterable[os.DirEntry[str]]] = os.scandir,
        readable: Callable[[Path], bool] = lambda file: os.access(file, os.R_OK),
    ) -> None:
        self.root = root.resolve()
        self._now = now
        self._rest = rest
        self._scan = scan
        self._readable = readable

    async def settled(self) -> Listing:
        """The files that nobody writes to; where some are young, all are looked at twice.

        Raises InvalidInput where the folder itself or its ignore file cannot be read: that is not an empty folder.
        """
        first = self._look()
        if not any(self._young(stamp) for stamp in first.files.values()):
            return first
        await self._rest(LOOK_SECONDS)
        second = self._look()
        for path, stamp in list(second.files.items()):
            before = first.files.get(path)
            if before != stamp and (before is not None or self._young(stamp)):
                second.left.add(path)
                del second.files[path]
        return second

    def counts(self, path: str) -> bool:
        """Whether a change of it can matter: used before a look, so what is ignored by name is let through."""
        parts = Path(path).parts[len(self.root.parts) :]
        return parts == (IGNORE_FILE,) or not any(part.startswith(".") for part in parts)

    def _young(self, stamp: Stamp) -> bool:
        return stamp.changed_ns / 1e9 > self._now() - LOOK_SECONDS

    def _look(self) -> Listing:
        listing = Listing()
        self._below(self.root, "", _ignored(self.root / IGNORE_FILE), listing)
        return listing

    def _below(self, folder: Path, above: str, ignored: GitIgnoreSpec, listing: Listing) -> None:
        try:
            entries = sorted(self._scan(folder), key=lambda entry: entry.name)
        except OSError as error:
            if not above:
                raise InvalidInput(
                    f"The folder '{folder}' cannot be read: {error.strerror}. Nothing was sent or removed.",
                    field="FOLDER",
                ) from error
            if not isinstance(error, FileNotFoundError):  # else it has gone since it was listed
                listing.unreadable[above] = str(error.strerror)
            return
        for entry in entries:
            path = above + entry.name
            if entry.name.startswith("."):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not ignored.match_file(f"{path}/"):
                        self._below(folder / entry.name, f"{path}/", ignored, listing)
                elif not ignored.match_file(path) and self._leads_inside(entry, ignored):
                    self._take(entry, path, listing)
            except FileNotFoundError:
                continue  # removed while this looked
            except OSError as error:
                listing.unreadable[path] = str(error.strerror)

    def _leads_inside(self, entry: os.DirEntry[str], ignored: GitIgnoreSpec) -> bool:
        """A link that leads to what is hidden or ignored would show it under another name."""
        if not entry.is_symlink():
            return True
        try:
            target = Path(os.path.realpath(entry.path, strict=True))
        except OSError as error:
            if error.errno == errno.ELOOP:  # it leads to itself
                return False
            raise
        if not target.is_relative_to(self.root):
            return False
        path = target.relative_to(self.root)
        return not any(part.startswith(".") for part in path.parts) and not ignored.match_file(path.as_posix())

    def _take(self, entry: os.DirEntry[str], path: str, listing: Listing) -> None:
        found = entry.stat()
        if not stat.S_ISREG(found.st_mode):
            return
        if reason := _unnameable(path):
            listing.unreadable[path.encode(errors="replace").decode()] = reason
        elif not self._readable(Path(entry.path)):
            listing.unreadable[path] = "permission denied"
        else:
            listing.files[path] = Stamp(found.st_size, found.st_mtime_ns, found.st_ino)


def _ignored(file: Path) -> GitIgnoreSpec:
    """Raises InvalidInput where there is a list that cannot be read: without it, what it hides would be sent."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"'{file}' cannot be read: {error}. Nothing was sent or removed.", field="FOLDER") from error
    try:
        return GitIgnoreSpec.from_lines(lines, backend="simple")
    except ValueError as error:
        raise InvalidInput(f"'{file}' has a line that is no pattern: {error}", field="FOLDER") from error


def _unnameable(path: str) -> str:
    """Why no document can have this name; empty where one can."""
    if len(path) > LONGEST_NAME:
        return f"its path has {len(path)} characters, of {LONGEST_NAME} at most"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    control = any(ord(character) < 32 or ord(character) == 127 for character in path)
    return "its name has control characters" if control else ""
