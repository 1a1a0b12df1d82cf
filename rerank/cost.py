"""What scoring costs: seconds per padded token, learned while running, with how far that is to be trusted.

Measured on the small test model, one thread: 20 to 32 microseconds a token between 64 and 512 tokens, so one rate
describes a model well enough; what differs (attention grows with the square of the length, a run has a fixed cost, a
neighbour takes the core) shows as deviation.
"""

from __future__ import annotations

import threading

# As RFC 6298 estimates a round trip: a smoothed mean and a smoothed deviation. A run counts by its tokens, so that the
# mean is right for a sum of runs; after so many tokens, what was known before has half the weight.
_HALF = 2000
_LEAST_GAIN = 1 / 8
_CLIP = 4.0
_RELAX = 1 / 32


class CostModel:
    """Estimates the seconds of a run before it is begun; one for each model and machine, shared by all requests.

    A single hiccup cannot teach it more than four times the known rate. A model that is refused for being too slow
    would never run, and never learn that the machine has recovered: each refusal therefore moves the estimate a
    thirty-second of the way back to the best rate seen.
    """

    def __init__(self) -> None:
        self._rate: float | None = None
        self._deviation = 0.0
        self._best = 0.0
        self._lock = threading.Lock()

    @property
    def known(self) -> bool:
        """Whether anything has been measured yet."""
        return self._rate is not None

    def expected(self, tokens: int) -> float:
        """Seconds that so many padded tokens take on average; 0 while nothing is known."""
        with self._lock:
            return tokens * (self._rate or 0.0)

    def careful(self, tokens: int) -> float:
        """Seconds that one run of so many padded tokens takes at most on an ordinary day: a deviation more."""
        with self._lock:
            return tokens * ((self._rate or 0.0) + self._deviation)

    def learn(self, tokens: int, seconds: float) -> None:
        """Takes in a run of `tokens` padded tokens (batch size times longest) that took `seconds`."""
        if tokens < 1:
            return
        seen = max(seconds, 0.0) / tokens
        with self._lock:
            if self._rate is None:
                self._rate, self._best = seen, seen
                return
            self._best = min(self._best, seen)
            seen = min(seen, _CLIP * self._rate) if self._rate > 0 else seen
            gain = max(tokens / (tokens + _HALF), _LEAST_GAIN)
            self._deviation += gain * (abs(seen - self._rate) - self._deviation)
            self._rate += gain * (seen - self._rate)

    def refused(self) -> None:
        """Takes in that a request was turned away because nothing would have fitted."""
        with self._lock:
            if self._rate is not None:
                self._rate += _RELAX * (self._best - self._rate)
                self._deviation -= _RELAX * self._deviation
