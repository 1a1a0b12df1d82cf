"""The shapes in which a model is run: how many pairs, padded to which length, and which pairs share a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Sharing a run must save at least this part of the runs' own costs. On a CPU it does for passages under 60 tokens or
# so, which share a run's fixed cost (two layers, one thread: 34 microseconds a token for one pair of 32 tokens, 17 for
# four; 21 and 19 at 128 tokens); longer runs gain less and make the clock coarser. On a GPU it always does.
_LEAST_SAVED = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """What one run computes: `rows` pairs of `length` tokens each, padding included."""

    rows: int
    length: int

    @property
    def tokens(self) -> int:
        """Padded tokens."""
        return self.rows * self.length


@dataclass(frozen=True, slots=True)
class Buckets:
    """Which shapes there are: lengths are multiples of `step`, rows are `least_rows` and its doublings.

    A CPU takes any shape as it comes (a new one costs 2 % more than one seen before): steps of 1, and `least_rows` 0
    for as many rows as there are pairs. A GPU chooses kernels and memory per shape, so it gets a few.
    """

    step: int = 1
    least_rows: int = 0

    def around(self, rows: int, longest: int, most: int) -> Shape:
        """The smallest shape that holds so many pairs; no longer than the `most` tokens that the model reads."""
        length = min(-(-longest // self.step) * self.step, max(most, longest))
        if self.least_rows < 1:
            return Shape(rows, length)
        held = self.least_rows
        while held < rows:
            held *= 2
        return Shape(held, length)

    def warm_ups(self, most: int, run_tokens: int) -> list[Shape]:
        """Every shape there is, or, where all are, enough of them to know what any costs: small to large."""
        if self.least_rows < 1:
            lengths = sorted({min(length, most) for length in (32, 64, 128, 192, 256, 384, 512, most)})
            counts: Sequence[int] = (1, 2, 4)
        else:
            lengths = sorted({min(length, most) for length in range(self.step, most + self.step, self.step)})
            largest = max(run_tokens // self.step, 1)
            counts = [self.least_rows << doubled for doubled in range(largest.bit_length())]
        shapes = [Shape(rows, length) for length in lengths for rows in counts]
        return [shape for shape in shapes if shape.tokens <= run_tokens or shape.rows == max(self.least_rows, 1)]


def worth_sharing(cost: Callable[[Shape], float], one: Shape, other: Shape, together: Shape) -> bool:
    """Whether one run for both is cheaper than a run for each, by enough to matter."""
    return cost(together) <= (1 - _LEAST_SAVED) * (cost(one) + cost(other))


def grouped(
    lengths: Sequence[int], shape: Callable[[int, int], Shape], run_tokens: int, cost: Callable[[Shape], float]
) -> list[list[int]]:
    """Groups places of `lengths` into runs of at most `run_tokens` padded tokens, shortest first.

    A run always holds at least one pair, and another one only where that saves time. `shape` tells in which shape so
    many pairs, of which the longest has so many tokens, are run.
    """
    runs: list[list[int]] = []
    so_far = Shape(0, 0)
    for place in sorted(range(len(lengths)), key=lambda place: (lengths[place], place)):
        alone = shape(1, lengths[place])
        if runs:
            together = shape(len(runs[-1]) + 1, lengths[place])
            if together.tokens <= run_tokens and worth_sharing(cost, so_far, alone, together):
                runs[-1].append(place)
                so_far = together
                continue
        runs.append([place])
        so_far = alone
    return runs
