"""The figures of a run: percentiles, rates and shares, from its samples alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

from benchmarks.load.correcting import corrected
from benchmarks.load.plan import Kind, Plan
from benchmarks.load.recording import Recording, Sample
from pipeline.clock import Stage

LATENESS = 0.005  # seconds: a run in which more than 1 in 100 requests left later than this measured the generator
# Not for want of time: these are as they are without load too, from the settings, the query or the collection.
STANDING = frozenset({"not_configured", "no_terms", "approximate", "unpublished", "earlier_generation", "budget"})


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles by nearest rank: each is a value that was measured, and of fewer than 100 the p99 is the highest."""

    count: int
    p50: float
    p95: float
    p99: float
    highest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of any numbers; all are 0 where there are none."""
        ordered = sorted(values)
        if not ordered:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        p50, p95, p99 = (percentile(ordered, share) for share in (0.50, 0.95, 0.99))
        return cls(len(ordered), p50, p95, p99, ordered[-1])

    def to_json(self) -> dict[str, float]:
        """Of seconds, as milliseconds."""
        named = {"p50_ms": self.p50, "p95_ms": self.p95, "p99_ms": self.p99, "highest_ms": self.highest}
        return {"count": self.count, **{name: round(value * 1000, 3) for name, value in named.items()}}


@dataclass(frozen=True, slots=True)
class Figures:
    """Durations in seconds, rates a second, shares in 0..1.

    `latency` is of answered requests, from the scheduled send to the last byte; `corrected` the same with what a closed
    loop left out, None where nothing says how often it should have asked. `goodput` counts answers within the
    deadline. `per_token` is the time from the first to the last chunk by the tokens after the first, as the model
    server counted them; `gaps` lie between chunks, which are not tokens. `degraded` holds shares of the answered
    requests by `stage:reason`, `refusals` numbers by status and code. `spoiled` is the share of all requests that had
    no whole answer, or one that was degraded for want of time or room.
    """

    sent: int
    answered: int
    in_time: int
    seconds: float
    latency: Spread
    corrected: Spread | None
    lateness: Spread
    first_event: Spread
    first_token: Spread
    per_token: Spread
    gaps: Spread
    waited: Mapping[str, Spread]
    worked: Mapping[str, Spread]
    degraded: Mapping[str, float]
    refusals: Mapping[str, int]
    hit_rates: Mapping[str, float]
    tokens_out: int
    tokens_in: int
    tokens_cached: int
    finished: int
    spoiled: float
    busy: float

    @property
    def void(self) -> bool:
        """Whether the generator was too late for the figures to be the service's."""
        return self.lateness.p99 > LATENESS

    @property
    def throughput(self) -> float:
        """Answers a second that came while requests were being sent."""
        return self.finished / self.seconds

    @property
    def goodput(self) -> float:
        """Answers a second that came within their deadline."""
        return self.in_time / self.seconds

    @property
    def promised(self) -> Spread:
        """What the deadline bounds: the first token of a chat, else the whole answer."""
        return self.first_token if self.first_token.count else self.latency

    def cost(self, price_per_hour: float) -> float:
        """Of 1,000 answers at this throughput, in the currency of the price; inf where there was none."""
        return 1000 * price_per_hour / (3600 * self.throughput) if self.throughput else inf

    def to_json(self) -> dict[str, Any]:
        """As JSON, times in milliseconds."""
        return {
            "sent": self.sent,
            "answered": self.answered,
            "in_time": self.in_time,
            "throughput": round(self.throughput, 3),
            "goodput": round(self.goodput, 3),
            "void": self.void,
            "busy": round(self.busy, 4),
            "spoiled": round(self.spoiled, 6),
            "latency": self.latency.to_json(),
            "corrected": self.corrected.to_json() if self.corrected else None,
            "lateness": self.lateness.to_json(),
            "first_event": self.first_event.to_json(),
            "first_token": self.first_token.to_json(),
            "per_token": self.per_token.to_json(),
            "gaps_between_chunks": self.gaps.to_json(),
            "waited": {stage: spread.to_json() for stage, spread in self.waited.items()},
            "worked": {stage: spread.to_json() for stage, spread in self.worked.items()},
            "degraded": {reason: round(share, 6) for reason, share in self.degraded.items()},
            "refusals": dict(self.refusals),
            "hit_rates": {cache: round(rate, 6) for cache, rate in self.hit_rates.items()},
            "tokens": {"out": self.tokens_out, "in": self.tokens_in, "cached": self.tokens_cached},
        }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the ordered values do not exceed."""
    return ordered[max(ceil(share * len(ordered)) - 1, 0)]


def in_time(plan: Plan, sample: Sample) -> bool:
    """Whether a request was answered within what its deadline bounds; without a deadline every answer is in time."""
    if not sample.answered:
        return False
    deadline = inf if plan.ask.deadline_ms is None else plan.ask.deadline_ms / 1000
    if plan.ask.kind is Kind.RETRIEVE:
        return sample.latency <= deadline
    return sample.first_token is None or sample.first_token <= deadline


def spoiled(sample: Sample) -> bool:
    """Whether a request had no whole answer, or one that was degraded for want of time or room."""
    return not sample.answered or any(each.partition(":")[2] not in STANDING for each in sample.degraded)


def figures(recording: Recording) -> Figures:
    """Everything that one run tells."""
    plan, samples = recording.plan, recording.samples
    answered = [sample for sample in samples if sample.answered]
    latencies = [sample.latency for sample in answered]
    interval = plan.pace.interval
    counted = [sample.tokens for sample in answered if sample.tokens]
    reasons = Counter(reason for sample in answered for reason in set(sample.degraded))
    return Figures(
        sent=len(samples),
        answered=len(answered),
        in_time=sum(in_time(plan, sample) for sample in samples),
        seconds=plan.seconds,
        latency=Spread.of(latencies),
        corrected=Spread.of(corrected(latencies, interval)) if interval else None,
        lateness=Spread.of(sample.late for sample in samples),
        first_event=Spread.of(each.first_event for each in answered if each.first_event is not None),
        first_token=Spread.of(each.first_token for each in answered if each.first_token is not None),
        per_token=Spread.of(_per_token(answered)),
        gaps=Spread.of(gap for sample in answered for gap in sample.gaps),
        waited=_by_stage((lap.stage, lap.waited) for sample in answered for lap in sample.laps),
        worked=_by_stage((lap.stage, lap.worked) for sample in answered for lap in sample.laps),
        degraded={reason: count / len(answered) for reason, count in sorted(reasons.items())},
        refusals=dict(sorted(Counter(_refusal(each) for each in samples if not each.answered).items())),
        hit_rates=_hit_rates(answered),
        tokens_out=sum(tokens.completion for tokens in counted),
        tokens_in=sum(tokens.prompt for tokens in counted),
        tokens_cached=sum(tokens.cached or 0 for tokens in counted),
        finished=sum(sample.scheduled + sample.latency <= plan.seconds for sample in answered),
        spoiled=sum(map(spoiled, samples)) / len(samples) if samples else 0.0,
        busy=recording.busy,
    )


def _per_token(samples: Iterable[Sample]) -> Iterable[float]:
    return (
        sum(each.gaps) / (each.tokens.completion - 1) for each in samples if each.tokens and each.tokens.completion > 1
    )


def _by_stage(times: Iterable[tuple[str, float]]) -> dict[str, Spread]:
    stages: dict[str, list[float]] = {}
    for stage, seconds in times:
        stages.setdefault(stage, []).append(seconds)
    known = list(Stage)
    ordered = sorted(stages, key=lambda stage: known.index(Stage(stage)) if stage in known else len(known))
    return {stage: Spread.of(stages[stage]) for stage in ordered}


def _refusal(sample: Sample) -> str:
    return f"{sample.status or 'none'} {sample.problem}"


def _hit_rates(samples: Iterable[Sample]) -> dict[str, float]:
    hits, asked = Counter[str](), Counter[str]()
    for sample in samples:
        for use in sample.uses:
            hits[use.cache] += use.hits
            asked[use.cache] += use.asked
    return {cache: hits[cache] / times for cache, times in sorted(asked.items()) if times}
