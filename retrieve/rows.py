"""What one leg found in one segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a segment, best first: score descending, then row ascending. Both are `[found]`."""

    rows: NDArray[np.integer]
    scores: NDArray[np.float32]

    @classmethod
    def none(cls) -> Rows:
        """Nothing was found."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))
