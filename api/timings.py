"""Laps on the wire: the `timings` object of every answer and the `Server-Timing` header of every response."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from pydantic import BaseModel, Field

from api.visits import Visit
from pipeline.clock import Clock, Stage, Timing
from pipeline.passages import Degraded


class LapOut(BaseModel):
    """One finished stage. `waited_ms` was spent in line, `worked_ms` is the rest."""

    stage: Stage
    started_ms: float = Field(description="From the request's first byte.")
    granted_ms: float | None = Field(description="What the stage was allowed; null where nothing bounded it.")
    waited_ms: float
    worked_ms: float
    cut: bool = Field(description="Whether the stage was ended at its allowance.")


class CacheUseOut(BaseModel):
    """How much of what was asked of one cache it had."""

    hits: int
    asked: int


class TimingsOut(BaseModel):
    """Where the time went, in milliseconds. The first three are null where they do not apply."""

    first_event_ms: float | None = Field(default=None, description="When the first event of a stream left.")
    first_token_ms: float | None = None
    deadline_ms: float | None = None
    total_ms: float
    caches: dict[str, CacheUseOut] = Field(default={}, description="By the cache's name; those looked into.")
    laps: list[LapOut]


class DegradedOut(BaseModel):
    """Something that was given up on purpose, to be in time."""

    stage: Stage
    reason: str
    detail: str = ""


def timings_out(visit: Visit, clock: Clock) -> TimingsOut:
    """The laps so far, in the order in which they began."""
    laps = sorted(clock.timings, key=lambda timing: timing.started)
    return TimingsOut(
        first_event_ms=_ms(visit.first_event),
        first_token_ms=_ms(visit.first_token),
        deadline_ms=_ms(visit.promised),
        total_ms=round(clock.elapsed() * 1000, 3),
        caches={name: CacheUseOut(hits=use.hits, asked=use.asked) for name, use in clock.caches.items()},
        laps=[_lap(timing) for timing in laps],
    )


def degraded_out(degraded: Iterable[Degraded]) -> list[DegradedOut]:
    """What was given up, for an answer."""
    return [DegradedOut(stage=item.stage, reason=item.reason, detail=item.detail) for item in degraded]


def server_timing(visit: Visit) -> str:
    """The header's value: what is known when the headers leave (W3C Server Timing).

    Where several queries were searched at once, each stage shows its longest lap.
    """
    longest: dict[Stage, Timing] = {}
    for clock in visit.clocks:
        for timing in clock.timings:
            seen = longest.get(timing.stage)
            if seen is None or timing.waited + timing.worked > seen.waited + seen.worked:
                longest[timing.stage] = timing
    metrics = [f"total;dur={visit.elapsed() * 1000:.1f}"]
    for stage, timing in longest.items():
        waited = f';desc="waited {timing.waited * 1000:.1f}"' if timing.waited >= 0.0001 else ""
        metrics.append(f"{stage};dur={(timing.waited + timing.worked) * 1000:.1f}{waited}")
    return ", ".join(metrics)


def _lap(timing: Timing) -> LapOut:
    return LapOut(
        stage=timing.stage,
        started_ms=round(timing.started * 1000, 3),
        granted_ms=None if timing.granted == inf else round(max(timing.granted, 0.0) * 1000, 3),
        waited_ms=round(timing.waited * 1000, 3),
        worked_ms=round(timing.worked * 1000, 3),
        cut=timing.cut,
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None or seconds == inf else round(seconds * 1000, 3)
