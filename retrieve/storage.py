"""The one place that creates, syncs, renames and removes files and folders of generations.

What is published must be there after a power cut. A disk keeps only what it was told to keep: a file's content when the
file was synced, a name when its folder was. So everything is written in one order (files, their syncs, the folder's
sync, the rename, the sync of the folder above), and only then a row of the catalog names it. A recorder is told of each
operation when it is done, so that a test can replay every prefix of them with all that was not synced dropped or torn.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from mmap import mmap
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

Content = bytes | mmap | NDArray[np.generic]


class Act(StrEnum):
    """What was done to a path."""

    MADE_FOLDER = "made folder"
    WROTE = "wrote"
    SYNCED = "synced"
    SYNCED_FOLDER = "synced folder"
    RENAMED = "renamed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, after it was done. `target` is the new name of what was renamed."""

    act: Act
    path: Path
    target: Path | None = None


Recorder = Callable[[Operation], None]
Sync = Callable[[Path, int], None]


def unrecorded(_: Operation) -> None:
    """The recorder of everyday work."""


def synced(path: Path, flags: int) -> None:
    """Puts on the disk what a path, opened with these flags, has in memory."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Storage:
    """Implements GenerationRemover. Safe to use from several threads.

    `sync` is for tests of everything but power cuts, which have no need to wait for a disk.
    """

    def __init__(self, recorder: Recorder = unrecorded, sync: Sync = synced) -> None:
        self._record = recorder
        self._sync = sync

    def make_folder(self, folder: Path) -> None:
        """Makes a folder, and those above it that are missing, each with its name on the disk.

        The name of one that is there already is synced too: whoever made it may have been killed before he could.
        """
        if not folder.parent.is_dir():
            self.make_folder(folder.parent)
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            self._record(Operation(Act.MADE_FOLDER, folder))
        self.sync_folder(folder.parent)

    def make_unfinished(self, parent: Path) -> Path:
        """A new folder inside `parent` that nobody looks for, to write into before it gets its name."""
        folder = parent / f".unfinished-{uuid4().hex}"
        folder.mkdir()
        self._record(Operation(Act.MADE_FOLDER, folder))
        return folder

    def write(self, file: Path, content: Content) -> None:
        """Writes a file that is not there yet; an array in numpy's format."""
        if isinstance(content, np.ndarray):
            np.save(file, content, allow_pickle=False)
        else:
            file.write_bytes(content)
        self.wrote(file)

    def wrote(self, file: Path) -> None:
        """Somebody else's writer, such as FAISS's, has written this file."""
        self._record(Operation(Act.WROTE, file))

    def settle(self, folder: Path) -> None:
        """Puts every file of a folder on the disk, then the folder's own entries."""
        for file in sorted(folder.iterdir()):
            self._sync(file, os.O_RDONLY)
            self._record(Operation(Act.SYNCED, file))
        self.sync_folder(folder)

    def sync_folder(self, folder: Path) -> None:
        """Puts a folder's entries on the disk."""
        self._sync(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._record(Operation(Act.SYNCED_FOLDER, folder))

    def finish(self, folder: Path, name: Path) -> None:
        """Gives a settled folder its name for good. Raises OSError when the name is taken."""
        folder.rename(name)
        self._record(Operation(Act.RENAMED, folder, name))
        self.sync_folder(name.parent)

    def discard(self, unfinished: Path) -> None:
        """Throws away what was not finished; never raises."""
        shutil.rmtree(unfinished, ignore_errors=True)
        self._record(Operation(Act.REMOVED, unfinished))

    def remove(self, folder: Path) -> None:
        """Implements GenerationRemover."""
        unnamed = folder.with_name(f".removed-{uuid4().hex}")
        try:
            folder.rename(unnamed)
        except FileNotFoundError:
            return
        self._record(Operation(Act.RENAMED, folder, unnamed))
        self.discard(unnamed)
