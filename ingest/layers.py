"""Layers: the segments of a generation as the catalog remembers them, and when they are put together.

    base ── delta ── delta ── delta ...        each delta at most half as large as the one before it

As in a log-structured merge tree (O'Neil et al. 1996, https://doi.org/10.1007/s002360050048) a new delta takes in those
before it that are not much larger, so that a document is written a logarithmic number of times and a search meets few
segments. What costs the size of the collection, a new base, is left to compaction, unless the collection is small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pipeline.ports import SegmentRef


@dataclass(frozen=True, slots=True)
class Layer:
    """One segment. Every document in it that is still shown has been shown since publish number `since` or later.

    `passages` were written, dead ones included; `size` is in bytes.
    """

    name: str
    since: int
    passages: int
    size: int


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """A delta is merged into the next while it is at most `ratio` times as large as that; there are at most `deltas`.

    A generation's waste is what is dead in it and what its deltas hold. With more than `whole_share` of the base a
    publish that changes so much, or one of a collection of up to `small` passages, writes a new base itself; larger
    collections are compacted from `compact_share` on, while publishing goes on.
    """

    deltas: int = 8
    ratio: float = 2.0
    whole_share: float = 0.5
    compact_share: float = 0.25
    small: int = 20_000


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers of a generation, its base first, and how many passages are alive in it."""

    layers: tuple[Layer, ...] = ()
    alive: int = 0

    @property
    def base(self) -> int:
        """Passages that were written into the base."""
        return self.layers[0].passages if self.layers else 0

    @property
    def deltas(self) -> tuple[Layer, ...]:
        """What lies on the base, oldest first."""
        return self.layers[1:]

    @property
    def written(self) -> int:
        """Passages that were written, dead ones included."""
        return sum(layer.passages for layer in self.layers)

    @property
    def segments(self) -> int:
        """How many there are; a generation of the first release is one, inside its own folder."""
        return len(self.layers) or 1

    @property
    def size(self) -> int | None:
        """Bytes of all layers; None where none is known."""
        return sum(layer.size for layer in self.layers) if self.layers else None

    def is_worth_a_base(self, added: int, options: LayerOptions) -> bool:
        """Whether so many added passages had better be published with a new base than as a delta."""
        allowed = options.whole_share * self.base
        if added > allowed:
            return True
        waste = self.written - self.alive + sum(delta.passages for delta in self.deltas) + added
        return waste > allowed and self.written + added <= options.small

    def merged(self, added: int, options: LayerOptions, after: int | None) -> int:
        """How many of the last deltas a new one of so many passages takes in; none that `after` is not later than."""
        total, taken = added, 0
        for delta in reversed(self.deltas):
            crowded = len(self.deltas) - taken >= options.deltas
            if (after is not None and delta.since <= after) or not (crowded or delta.passages <= options.ratio * total):
                break
            total, taken = total + delta.passages, taken + 1
        return taken


def packed_layers(layers: Sequence[Layer]) -> str:
    """As the catalog keeps them."""
    return json.dumps([asdict(layer) for layer in layers])


def unpacked_layers(text: str) -> tuple[Layer, ...]:
    """The opposite of `packed_layers`."""
    return tuple(Layer(**fields) for fields in json.loads(text))


def packed_segment(ref: SegmentRef) -> str:
    """As the catalog keeps a base that waits to be taken over."""
    return json.dumps(asdict(ref))


def unpacked_segment(text: str) -> SegmentRef:
    """The opposite of `packed_segment`."""
    return SegmentRef(**json.loads(text))
