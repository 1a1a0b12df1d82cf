"""A line: who comes first, by priority and then by deadline, with a turn now and then for the last priority in it.

A lower priority is served first, as in vLLM; among equals the earlier deadline, and among those who came first. One
turn in `FAIR` goes to the highest number in line, so that batch traffic is slow beside busy interactive traffic and
never stands still. Kept sorted: joining, leaving and counting who is ahead cost a search by halves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
Key = tuple[int, float, int]  # priority, deadline, number of joining

FAIR = 8  # turns, of which one is for the last priority in line


class Line(Generic[T]):
    """Not safe for several threads by itself: a lane keeps it under its own lock."""

    __slots__ = ("_entries", "_joined", "_turns")

    def __init__(self) -> None:
        self._entries: list[tuple[Key, T]] = []
        self._joined = 0
        self._turns = 0

    def __len__(self) -> int:
        return len(self._entries)

    def join(self, item: T, priority: int, deadline: float) -> Key:
        """Puts an item in line; its key is what it leaves or moves with."""
        self._joined += 1
        key = (priority, deadline, self._joined)
        self._insert(key, item)
        return key

    def move(self, key: Key, priority: int, deadline: float) -> Key:
        """Gives an item in line another place; among equals it stands as if it had always been there.

        Raises KeyError when it is not in line.
        """
        _, item = self._entries.pop(self._place(key))
        moved = (priority, deadline, key[2])
        self._insert(moved, item)
        return moved

    def leave(self, key: Key) -> bool:
        """Takes an item out; False when it is not in line any more."""
        try:
            del self._entries[self._place(key)]
        except KeyError:
            return False
        return True

    def holds(self, key: Key) -> bool:
        """Whether an item is still in line."""
        place = self._bisect(key)
        return place < len(self._entries) and self._entries[place][0] == key

    def ahead(self, priority: int, deadline: float) -> int:
        """How many would be served before a newcomer."""
        return self._bisect((priority, deadline, self._joined + 1))

    def in_order(self) -> Iterator[T]:
        """Everybody in line, first to last."""
        return (item for _, item in self._entries)

    def take(self) -> T:
        """Removes and returns whose turn it is. Raises IndexError for an empty line."""
        return self._entries.pop(self._next())[1]

    def turn(self) -> list[T]:
        """Whose turn it is, and behind it everybody else in order: what a batch is chosen from. Removes nobody."""
        if not self._entries:
            return []
        first = self._next()
        items = [item for _, item in self._entries]
        return [items[first], *items[:first], *items[first + 1 :]] if first else items

    def _next(self) -> int:
        if not self._entries:
            raise IndexError("nobody is in line")
        last = self._entries[-1][0][0]
        if self._entries[0][0][0] == last:
            return 0
        self._turns += 1
        return 0 if self._turns % FAIR else self._bisect((last, float("-inf"), 0))

    def _insert(self, key: Key, item: T) -> None:
        insort(self._entries, (key, item), key=_key)

    def _bisect(self, key: Key) -> int:
        return bisect_left(self._entries, key, key=_key)

    def _place(self, key: Key) -> int:
        if not self.holds(key):
            raise KeyError(key)
        return self._bisect(key)


def _key(entry: tuple[Key, object]) -> Key:
    return entry[0]
