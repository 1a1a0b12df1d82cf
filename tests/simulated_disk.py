"""A disk whose power is cut: what the one storage module did, replayed up to any operation, with what was not synced
dropped, torn or kept.

A file's content is sure when the file was synced, a name when its folder was. Until then anything may happen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from retrieve.storage import Act, Operation


@dataclass
class File:
    content: bytes
    sure: bytes | None = None


@dataclass
class Folder:
    entries: dict[str, File | Folder] = field(default_factory=dict)
    sure: dict[str, File | Folder] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """An operation, and what a written file had in it."""

    operation: Operation
    content: bytes = b""


class Recording:
    """A recorder for `Storage`: remembers each operation under `root`, with the content of what was written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = _folder_on(root)
        self.steps: list[Step] = []

    def __call__(self, operation: Operation) -> None:
        content = operation.path.read_bytes() if operation.act is Act.WROTE else b""
        self.steps.append(Step(operation, content))

    def cut_after(self, steps: int) -> Iterator[tuple[str, Folder]]:
        """What the disk may hold when power is cut after so many steps, by a word for how it came."""
        disk = _copied(self.before)
        for step in self.steps[:steps]:
            self._apply(disk, step)
        yield "killed", _kept(disk)
        yield "dropped", _sure(disk)
        yield "torn", _mixed(disk, random.Random(f"{steps} torn"), names=1.0)
        yield "mixed", _mixed(disk, random.Random(f"{steps} mixed"), names=0.5)

    def _apply(self, disk: Folder, step: Step) -> None:
        operation = step.operation
        parts = operation.path.relative_to(self.root).parts
        if operation.act is Act.SYNCED_FOLDER:
            folder = _at(disk, parts)
            folder.sure = dict(folder.entries)
            return
        above, name = _at(disk, parts[:-1]), parts[-1]
        match operation.act:
            case Act.MADE_FOLDER:
                above.entries[name] = Folder()
            case Act.WROTE:
                above.entries[name] = File(step.content)
            case Act.SYNCED:
                file = above.entries[name]
                assert isinstance(file, File)
                file.sure = file.content
            case Act.RENAMED:
                assert operation.target is not None
                assert operation.target.parent == operation.path.parent
                above.entries[operation.target.name] = above.entries.pop(name)
            case Act.REMOVED:
                above.entries.pop(name, None)


def put(folder: Folder, where: Path) -> None:
    """Makes the files of a simulated disk real."""
    where.mkdir(parents=True)
    for name, entry in folder.entries.items():
        if isinstance(entry, File):
            (where / name).write_bytes(entry.content)
        else:
            put(entry, where / name)


def _folder_on(root: Path) -> Folder:
    entries: dict[str, File | Folder] = {}
    for path in root.iterdir():
        content = b"" if path.is_dir() else path.read_bytes()
        entries[path.name] = _folder_on(path) if path.is_dir() else File(content, content)
    return Folder(entries, dict(entries))


def _at(disk: Folder, parts: tuple[str, ...]) -> Folder:
    for part in parts:
        found = disk.entries[part]
        assert isinstance(found, Folder)
        disk = found
    return disk


def _copied(folder: Folder) -> Folder:
    made: dict[int, File | Folder] = {}

    def copy(entry: File | Folder) -> File | Folder:
        if id(entry) not in made:
            made[id(entry)] = File(entry.content, entry.sure) if isinstance(entry, File) else _copied(entry)
        return made[id(entry)]

    return Folder(
        {name: copy(entry) for name, entry in folder.entries.items()},
        {name: copy(entry) for name, entry in folder.sure.items()},
    )


def _kept(folder: Folder) -> Folder:
    return Folder(
        {name: File(each.content) if isinstance(each, File) else _kept(each) for name, each in folder.entries.items()}
    )


def _sure(folder: Folder) -> Folder:
    return Folder(
        {name: File(each.sure or b"") if isinstance(each, File) else _sure(each) for name, each in folder.sure.items()}
    )


def _mixed(folder: Folder, draw: random.Random, names: float) -> Folder:
    """Names that are not sure are there with that chance; content that is not is torn, zeros behind it or nothing."""
    chosen = folder.entries if draw.random() < names else folder.sure
    entries: dict[str, File | Folder] = {}
    for name, each in sorted(chosen.items()):
        if isinstance(each, Folder):
            entries[name] = _mixed(each, draw, names)
        elif each.sure is not None:
            entries[name] = File(each.sure)
        else:
            torn = draw.randrange(len(each.content) + 1)
            entries[name] = File(each.content[:torn] + draw.choice([b"", bytes(len(each.content) - torn)]))
    return Folder(entries)
