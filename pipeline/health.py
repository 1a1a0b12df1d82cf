"""What a service tells of itself: whether what it needs is there, and the figures that its parts keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """`ask` returns a short text, or raises the reason for not being ready, in words that a stranger may read.

    Without what is not `needed` every request is still answered.
    """

    ask: Callable[[], Awaitable[str]]
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Figure:
    """What stands now, read whenever somebody asks: cheap, and never waiting."""

    name: str
    text: str
    read: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts since the start, which only grow, by the values of `label`; read as a Figure is."""

    name: str
    text: str
    label: str
    read: Callable[[], Mapping[str, float]]

    def from_now(self) -> Tally:
        """The same, counting from this moment."""
        before = dict(self.read())

        def since() -> dict[str, float]:
            return {value: count - before.get(value, 0) for value, count in self.read().items()}

        return Tally(self.name, self.text, self.label, since)
