"""What Prometheus sees. The laps of every request feed one histogram; waiting and working are kept apart."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from api.visits import Visit
from pipeline.clock import Stage
from pipeline.errors import OutOfTime
from pipeline.health import Figure, Tally

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, inf)
TOKENS_A_SECOND = (1.0, 2.0, 5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 100.0, 150.0, 250.0, 500.0, 1000.0, inf)


class Metrics:
    """The service's measurements, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._seconds("request", "From the first byte to the end.", "route", "status")
        self._stages = self._seconds("stage", "Laps, waiting in line and working apart.", "stage", "kind")
        self._first_event = self._seconds("first_event", "Until the first event of a stream left.")
        self._first_token = self._seconds("first_token", "Until the first token (TTFT).")
        self._completion = self._seconds("completion", "Until an answer was complete.")
        self._between = _Counted("fleetfoot_inter_token_seconds", "Between two chunks of a stream.", SECONDS)
        self.registry.register(self._between)
        self._speed = Histogram(
            "fleetfoot_tokens_per_second",
            "Tokens after the first, as the upstream counted them, by the time they took.",
            buckets=TOKENS_A_SECOND,
            registry=self.registry,
        )
        self._errors = self._count("errors", "Answers that were errors, by code.", "code")
        self._degraded = self._count("degraded", "What was given up to be in time.", "stage", "reason")
        self._deadlines = self._count("deadlines", "Requests with a deadline, and whether it was met.", "met")
        self._left = self._count("clients_left", "Clients that left before the end.")
        self._dawdled = self._count("clients_slow", "Clients hung up on for sending or reading too slowly.", "phase")
        self._lag = self._seconds("loop_lag", "How late the event loop was, each twentieth of a second.")
        self._inside = Gauge("fleetfoot_requests_inside", "Requests being answered.", registry=self.registry)
        self._laps: dict[Stage, tuple[Histogram, Histogram]] = {}

    def show_all(self, figures: Iterable[Figure], tallies: Iterable[Tally]) -> None:
        """Shows all that one part keeps."""
        for figure in figures:
            self.show(figure)
        for tally in tallies:
            self.show_tally(tally)

    def show(self, figure: Figure) -> None:
        """Shows what something else keeps, read when Prometheus asks."""
        Gauge(f"fleetfoot_{figure.name}", figure.text, registry=self.registry).set_function(figure.read)

    def show_tally(self, tally: Tally) -> None:
        """Shows as a counter what something else counts, read when Prometheus asks."""
        self.registry.register(_Tallied(tally))

    def text(self) -> bytes:
        """The exposition format, version 0.0.4."""
        return generate_latest(self.registry)

    def entered(self) -> None:
        """A request has come in."""
        self._inside.inc()

    def lagged(self, seconds: float) -> None:
        """The event loop was so late."""
        self._lag.observe(seconds)

    def dawdled(self, phase: str) -> None:
        """A client was hung up on for sending its `header` or `body`, or reading its `answer`, too slowly."""
        self._dawdled.labels(phase).inc()

    def token(self, after: float) -> None:
        """A chunk came `after` seconds after the one before."""
        self._between.observe(after)

    def generated(self, tokens: int, seconds: float) -> None:
        """An answer's tokens, counted by the upstream, and the seconds from the first to the last."""
        if tokens > 1 and seconds > 0:
            self._speed.observe((tokens - 1) / seconds)

    def finished(self, visit: Visit, route: str) -> None:
        """A request has been answered, or its client has left."""
        self._inside.dec()
        self._requests.labels(route, str(visit.status)).observe(visit.elapsed())
        for clock in visit.clocks:
            for timing in clock.timings:
                waited, worked = self._lap(timing.stage)
                waited.observe(timing.waited)
                worked.observe(timing.worked)
        for histogram, seconds in (
            (self._first_event, visit.first_event),
            (self._first_token, visit.first_token),
            (self._completion, visit.completed),
        ):
            if seconds is not None:
                histogram.observe(seconds)
        for item in visit.degraded:
            self._degraded.labels(item.stage, item.reason).inc()
        if visit.left:
            self._left.inc()
        elif visit.code:
            self._errors.labels(visit.code).inc()
        met = False if visit.code == OutOfTime.code else visit.met
        if visit.promised is not None and met is not None:
            self._deadlines.labels("yes" if met else "no").inc()

    def _lap(self, stage: Stage) -> tuple[Histogram, Histogram]:
        """The stage's two histograms; looking them up by their labels costs as much as counting in them."""
        if stage not in self._laps:
            self._laps[stage] = (self._stages.labels(stage, "waited"), self._stages.labels(stage, "worked"))
        return self._laps[stage]

    def _seconds(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"fleetfoot_{name}_seconds", text, labels, buckets=SECONDS, registry=self.registry)

    def _count(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"fleetfoot_{name}", text, labels, registry=self.registry)


class _Counted(Collector):
    """A histogram of what happens for every token, on the event loop alone: it needs no lock, and costs a tenth."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name, self._text, self._bounds = name, text, bounds
        self._counts = [0] * len(bounds)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._text)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        buckets = [
            ("+Inf" if bound == inf else repr(bound), float(count))
            for bound, count in zip(self._bounds, accumulate(self._counts), strict=True)
        ]
        yield HistogramMetricFamily(self._name, self._text, buckets, self._sum)


class _Tallied(Collector):
    """A tally in Prometheus's shape; its figures are made when they are asked for."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def describe(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(f"fleetfoot_{self._tally.name}", self._tally.text, labels=[self._tally.label])

    def collect(self) -> Iterator[CounterMetricFamily]:
        for family in self.describe():
            for value, count in self._tally.read().items():
                family.add_metric([value], count)
            yield family
