"""Which rows of each segment a request may find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retrieve.segment import Segment


class Allowed:
    """What filter and labels leave of those rows that are alive, segment by segment, for both legs of one request.

    `masks` has for each segment `[rows] uint8`, 0 for rows to leave out, or None where none is. The two are put
    together by the leg that comes first, on its thread: a million rows take 40 µs. Should both be at it at once they
    make the same.
    """

    def __init__(self, segments: Sequence[Segment], masks: Sequence[NDArray[np.uint8] | None]) -> None:
        self._segments = segments
        self._masks = masks
        self._together: dict[int, NDArray[np.uint8]] = {}

    @classmethod
    def living(cls, segments: Sequence[Segment]) -> Allowed:
        """All that is alive."""
        return cls(segments, [None] * len(segments))

    def at(self, place: int) -> NDArray[np.uint8] | None:
        """`[rows] uint8` of the segment at that place; None where all of it may be found. Nobody writes to it."""
        mask, alive = self._masks[place], self._segments[place].alive
        if mask is None or alive is None:
            return alive if mask is None else mask
        together = self._together.get(place)
        if together is None:
            together = self._together[place] = mask & alive
        return together
