"""What a run of the model costs, by its shape: learned while running, with how far that is to be trusted.

    seconds = pace * (a + b * tokens + c * tokens * length)

A run has a fixed cost, every padded token has its own, and attention grows with the square of the length. Measured on
two layers, one thread: 1.1 ms for one pair of 32 tokens, 2.7 for 128, 6.0 for 256, 5.0 for two of 128; the three
parts describe each within a twelfth, one rate per token was 60 % off for short pairs.

The three parts belong to model and machine; they are learned slowly and kept in a file. The pace is of the moment (a
neighbour takes the core), is learned within tens of milliseconds, and starts afresh.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import exp, isfinite

from rerank.shapes import Shape

# Half of what is known of the parts comes from the last so many runs, and half of the pace from so many seconds of
# running; a single run counts between a sixteenth and a quarter of the pace.
_HALF_RUNS = 400
_HALF_SECONDS = 0.1
_LEAST_GAIN, _MOST_GAIN = 1 / 16, 1 / 4
_CLIP = 4.0
_LEAST_PACE, _LEAST_SECONDS = 1e-3, 1e-9
_RELAX = 1 / 32
_SWEEPS = 6
_EVERY_RUN, _OFTEN = 64, 16  # solved anew after each of the first runs, then after one in so many (30 us each)
_KEEP = 0.5 ** (1 / _HALF_RUNS)

Parts = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Learned:
    """What is worth keeping for the next start: seconds a run, a token, and a token times its length; and their trust.

    `deviation` is the mean distance of a run from what was expected, as a part of that; `runs` is how many were seen.
    """

    parts: Parts
    deviation: float
    runs: int

    def usable(self) -> bool:
        """Whether these can be seconds of a real machine; asked of what comes from a file."""
        return (
            all(isfinite(part) and 0 <= part < 60 for part in self.parts)
            and any(self.parts)
            and isfinite(self.deviation)
            and 0 <= self.deviation <= _CLIP
            and self.runs >= 1
        )


class CostModel:
    """Estimates the seconds of a run before it is begun; one for each model and machine, shared by all requests.

    Least squares of the relative error over the runs seen, the older ones weighing less, no part below 0. A single
    hiccup cannot teach it more than four times what was expected. A model that is refused for being too slow would
    never run, and never learn that the machine has recovered: each refusal therefore moves the pace a thirty-second of
    the way back to the best one seen.
    """

    def __init__(self, learned: Learned | None = None) -> None:
        self._parts: Parts = learned.parts if learned else (0.0, 0.0, 0.0)
        self._deviation = learned.deviation if learned else 0.0
        self._runs = learned.runs if learned else 0
        self._pace: float = 1.0
        self._best: float = 1.0
        self._squares = [[0.0] * 3 for _ in range(3)]
        self._products = [0.0] * 3
        self._lock = threading.Lock()
        if learned:
            self._remember(learned)

    @property
    def known(self) -> bool:
        """Whether anything has been measured yet."""
        return self._runs > 0

    @property
    def learned(self) -> Learned:
        """What is known now, without the pace of the moment."""
        with self._lock:
            return Learned(self._parts, self._deviation, self._runs)

    def expected(self, shape: Shape) -> float:
        """Seconds that a run takes on average; 0 while nothing is known."""
        return self._pace * _seconds(self._parts, shape)

    def careful(self, shape: Shape) -> float:
        """Seconds that a run takes at most on an ordinary day: a deviation more, which four runs in five keep to."""
        return self.expected(shape) * (1 + self._deviation)

    def learn(self, shape: Shape, seconds: float) -> None:
        """Takes in a run that took `seconds`."""
        if shape.tokens < 1:
            return
        seconds = max(seconds, 0.0)
        with self._lock:
            before = _seconds(self._parts, shape)
            if before < _LEAST_SECONDS:  # nothing is known, or only what no clock can tell from nothing
                self._parts = (0.0, seconds / shape.tokens, 0.0)
                before = seconds
            if before >= _LEAST_SECONDS:
                self._follow(shape, before, seconds / before)
            self._runs += 1

    def refused(self) -> None:
        """Takes in that a request was turned away because nothing would have fitted."""
        with self._lock:
            self._pace += _RELAX * (self._best - self._pace)
            self._deviation -= _RELAX * self._deviation

    def _follow(self, shape: Shape, before: float, ratio: float) -> None:
        """Takes in a run that took `ratio` times the `before` seconds that its shape has at pace 1."""
        ratio = min(max(ratio, _LEAST_PACE), _CLIP * self._pace)
        self._best = min(self._best, ratio)
        off = ratio / self._pace
        gain = min(max(1 - exp(-before * ratio / _HALF_SECONDS), _LEAST_GAIN), _MOST_GAIN)
        self._deviation += gain * (abs(off - 1) - self._deviation)
        self._pace += gain * (ratio - self._pace)
        self._weigh(shape, before, before * off)

    def _weigh(self, shape: Shape, before: float, taken: float) -> None:
        """A run joins the least squares, divided by what was expected of it, so that short and long count alike."""
        given = [feature / before for feature in _features(shape)]
        for row in range(3):
            for column in range(3):
                self._squares[row][column] = _KEEP * self._squares[row][column] + given[row] * given[column]
            self._products[row] = _KEEP * self._products[row] + given[row] * taken / before
        if self._runs < _EVERY_RUN or self._runs % _OFTEN == 0:
            self._parts = _solved(self._squares, self._products, self._parts)

    def _remember(self, learned: Learned) -> None:
        """What comes from a file weighs as much as runs of a few usual shapes, so that new ones can correct it."""
        for shape in (Shape(1, 32), Shape(1, 128), Shape(1, 256), Shape(4, 32), Shape(2, 128)):
            expected = _seconds(learned.parts, shape)
            if expected > 0:
                self._weigh(shape, expected, expected)


def _features(shape: Shape) -> Parts:
    return (1.0, float(shape.tokens), float(shape.tokens * shape.length))


def _seconds(parts: Parts, shape: Shape) -> float:
    run, token, square = parts
    return run + (token + square * shape.length) * shape.tokens


def _solved(squares: list[list[float]], products: list[float], parts: Parts) -> Parts:
    """Least squares with no part below 0, by coordinate descent from where it stood."""
    found = list(parts)
    for _ in range(_SWEEPS):
        for row in range(3):
            if squares[row][row] > 0:
                others = sum(squares[row][column] * found[column] for column in range(3) if column != row)
                found[row] = max((products[row] - others) / squares[row][row], 0.0)
    return (found[0], found[1], found[2])
