"""What a closed loop did not ask while it waited, put back into its latencies.

A caller that should ask every `interval` seconds and waited for one answer through a stall of ten intervals left out
the nine requests that the stall would have kept waiting too. Gil Tene's correction, as HdrHistogram's
`recordValueWithExpectedInterval` makes it, adds one value an interval: those requests would have waited for what was
left of the stall.
"""

from __future__ import annotations

from collections.abc import Iterable


def corrected(latencies: Iterable[float], interval: float) -> list[float]:
    """The latencies, and for each one longer than `interval` seconds those it kept others from having."""
    whole: list[float] = []
    for latency in latencies:
        whole.append(latency)
        missing = latency - interval
        while missing >= interval:
            whole.append(missing)
            missing -= interval
    return whole
