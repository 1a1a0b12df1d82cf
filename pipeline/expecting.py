"""How long work takes, learned while it is done, so that a lane can tell a newcomer's wait before it begins.

Recent work counts most, and one hiccup hardly counts: a sample is taken for at most `MOST` times what was expected. A
true slow-down is learned within some ten pieces of work all the same.
"""

from __future__ import annotations

WEIGHT = 0.1  # of the newest sample
MOST = 4.0
LEAST_SECONDS = 0.0001  # from which a mean may grow


class Typical:
    """A mean that forgets. 0 until something was learned."""

    __slots__ = ("_samples", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._samples = 0

    def learn(self, took: float) -> None:
        """Takes in one piece of work; the first few count evenly."""
        self._samples += 1
        if self._samples > 1:
            took = min(took, MOST * max(self.seconds, LEAST_SECONDS))
        self.seconds += max(WEIGHT, 1 / self._samples) * (took - self.seconds)


class BatchCost:
    """Seconds that a batch takes: a part for each run and a part for each of its padded units.

    Least squares over the batches seen, each weighing `1 - WEIGHT / 2` of the one after it. Batches of one size cannot
    tell the two parts apart; all is then put down to the units.
    """

    __slots__ = ("_deviation", "_n", "_x", "_xx", "_xy", "_y", "each", "run")

    def __init__(self) -> None:
        self.run = 0.0
        self.each = 0.0
        self._deviation = Typical()
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    @property
    def deviation(self) -> float:
        """Seconds that `expected` is typically wrong by."""
        return self._deviation.seconds

    def expected(self, units: int) -> float:
        """Seconds for a batch; 0 until something was learned."""
        return self.run + self.each * units

    def careful(self, units: int) -> float:
        """As `expected`, with what it is typically wrong by on top."""
        return self.expected(units) + self.deviation

    def learn(self, units: int, took: float) -> None:
        """Takes in one batch."""
        if self._n > 1:
            self._deviation.learn(abs(took - self.expected(units)))
            took = min(took, MOST * max(self.expected(units), LEAST_SECONDS))
        keep = 1 - WEIGHT / 2
        self._n = keep * self._n + 1
        self._x = keep * self._x + units
        self._y = keep * self._y + took
        self._xx = keep * self._xx + units * units
        self._xy = keep * self._xy + units * took
        self._fit()

    def _fit(self) -> None:
        spread = self._n * self._xx - self._x * self._x
        if spread < 0.01 * self._n * self._xx:
            self.run, self.each = 0.0, self._y / self._x
            return
        each = (self._n * self._xy - self._x * self._y) / spread
        run = (self._y - each * self._x) / self._n
        if each < 0:
            run, each = self._y / self._n, 0.0
        elif run < 0:
            run, each = 0.0, self._xy / self._xx
        self.run, self.each = run, each
