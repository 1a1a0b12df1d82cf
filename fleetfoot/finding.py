"""Which files `fleetfoot ingest` sends, under which names, and how many at once."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path

from pipeline.errors import InvalidInput

FILES_A_REQUEST = 64
BYTES_A_REQUEST = 16_000_000

Named = tuple[str, Path]  # the name in the collection, and the file


def files_below(paths: Sequence[Path]) -> list[Named]:
    """Every file that was named or lies below a named folder, with the name it will have in the collection.

    A file in a folder is named by its path below that folder, a single file by its own name. Hidden files and folders
    are passed over. Raises InvalidInput for a path that does not exist, and for two files of one name, of which the
    second would silently replace the first.
    """
    found: dict[str, Path] = {}
    for path in paths:
        for name, file in _below(path):
            other = found.setdefault(name, file)
            if other != file and not other.samefile(file):
                raise InvalidInput(
                    f"'{other}' and '{file}' would both be named '{name}', and the second would replace the first. "
                    "Name a folder that holds both, or send them to different collections.",
                    field="PATH",
                )
    if not found:
        below = ", ".join(f"'{path}'" for path in paths)
        raise InvalidInput(f"There is no file below {below}.", field="PATH")
    return list(found.items())


def batches(files: Sequence[Named]) -> Generator[list[Named]]:
    """The files in their order, few enough for one request; a file that is too large for one goes alone."""
    batch: list[Named] = []
    size = 0
    for name, file in files:
        length = _size(file)
        if batch and (len(batch) >= FILES_A_REQUEST or size + length > BYTES_A_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append((name, file))
        size += length
    if batch:
        yield batch


def _below(path: Path) -> Generator[Named]:
    if path.is_file():
        yield path.name, path
    elif path.is_dir():
        for folder, folders, names in os.walk(path, onerror=_unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(folder, name)
                if not name.startswith(".") and file.is_file():
                    yield file.relative_to(path).as_posix(), file
    else:
        raise InvalidInput(f"There is no file or folder '{path}'.", field="PATH")


def _unreadable(error: OSError) -> None:
    raise InvalidInput(f"The folder '{error.filename}' cannot be read: {error.strerror}.", field="PATH") from error


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # gone since; reading it will say so
        return 0
