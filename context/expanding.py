"""What stands around a hit joins it in the context: the passages beside it, or the section that it was cut from.

A hit is found by the few words that a passage holds, and read in what its author wrote around them. Hits are chosen
first and in full; only what they leave of the budget is spent on their surroundings, the best hit's first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from context.joining import Joined
from pipeline.passages import Passage
from pipeline.ports import Shelf
from pipeline.profile import Expand

# Passages brought in for one request. Each takes some 20 µs to look up, on the event loop.
MOST = 100


def expanded(sources: Sequence[Joined], how: Expand, shelf: Shelf, left: int) -> list[Joined]:
    """The same sources in the same order, each with what joins it; `left` is how many tokens all of that may take.

    A source grows evenly to both sides. It stops at its document's and its section's ends, at what another source
    has, at a text that is in the context already, and at the first passage that is too long for what is left.
    """
    if how is Expand.NONE or left <= 0:
        return list(sources)
    growing = _Growing(how, shelf, left, sources)
    return [growing.grown(source) for source in sources]


class _Growing:
    """What is left to spend, and what is in the context already."""

    def __init__(self, how: Expand, shelf: Shelf, left: int, sources: Iterable[Joined]) -> None:
        self._how = how
        self._shelf = shelf
        self._left = left
        self._more = MOST
        self._keys = {key for source in sources for key in source.keys}
        self._hashes = {passage.content_hash for source in sources for passage in source.passages}

    def grown(self, source: Joined) -> Joined:
        keys, passages = list(source.keys), list(source.passages)
        behind, ahead = True, True
        while behind or ahead:
            if behind:
                found = self._take(keys[0], passages[0], forwards=False)
                behind = found is not None and self._how is Expand.PARENT
                if found is not None:
                    keys.insert(0, found[0])
                    passages.insert(0, found[1])
            if ahead:
                found = self._take(keys[-1], passages[-1], forwards=True)
                ahead = found is not None and self._how is Expand.PARENT
                if found is not None:
                    keys.append(found[0])
                    passages.append(found[1])
        return Joined(source.ranked, tuple(passages), tuple(keys))

    def _take(self, key: int, edge: Passage, *, forwards: bool) -> tuple[int, Passage] | None:
        """The passage beside that edge, with its key, if it may join."""
        (beside,) = self._shelf.neighbours([key])
        wanted = beside.next if forwards else beside.previous
        if wanted is None or wanted in self._keys or self._more == 0:
            return None
        (tokens,) = self._shelf.tokens([wanted])
        if tokens > self._left:
            return None
        (passage,) = self._shelf.passages([wanted])
        section = self._how is Expand.NEIGHBOURS or (passage.parent != "" and passage.parent == edge.parent)
        if not section or passage.content_hash in self._hashes:
            return None
        self._left -= tokens
        self._more -= 1
        self._keys.add(wanted)
        self._hashes.add(passage.content_hash)
        return wanted, passage
