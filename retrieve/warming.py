"""What a generation is asked before anybody asks, and how its files come into memory meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from retrieve.generation import Generation
from retrieve.giving_way import give_way

WORDS = (3, 1, 5, 2, 8, 12, 4, 16, 6, 24, 40, 10)


def sample_queries(generation: Generation) -> tuple[str, ...]:
    """Questions that it can answer, short and long: the first words of passages spread over it."""
    begins = np.cumsum([0, *(segment.rows for segment in generation.segments)])
    if begins[-1] == 0:
        return ()
    found: list[str] = []
    for place, words in enumerate(WORDS):
        row = place * int(begins[-1]) // len(WORDS)
        number = int(np.searchsorted(begins, row, "right")) - 1
        passage = generation.segments[number].table.passage(row - int(begins[number]))
        found.append(" ".join(passage.text.split()[:words]))
    return tuple(dict.fromkeys(text for text in found if text))


def read_ahead(folder: Path) -> None:
    """Asks the kernel to read a segment's files, so that no request waits for a disk; returns before it has.

    Files that are in memory already cost a look each; where the kernel does not know the wish nothing happens.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.rglob("*"):
        if path.is_file():
            give_way()
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
