"""Kinds of traffic, named: what is asked, how long prompts and answers are, how often, and by when.

`docs/benchmarking.md` shows them as a table and says where the figures come from; each can be overridden alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.load.plan import Ask, Kind, Pace
from pipeline.errors import NotFound


@dataclass(frozen=True, slots=True)
class Preset:
    """The parts of a plan that make a kind of traffic."""

    ask: Ask
    pace: Pace
    seconds: float = 60.0
    warm_up: float = 10.0
    exponent: float | None = 1.0


PRESETS: Mapping[str, Preset] = {
    "search": Preset(Ask(Kind.RETRIEVE, deadline_ms=250), Pace(20.0), seconds=30, warm_up=5),
    "chat": Preset(
        Ask(Kind.CHAT, deadline_ms=2000, top_k=8, context_tokens=1500, system_words=200, answer_tokens=256), Pace(2.0)
    ),
    "voice": Preset(
        Ask(Kind.CHAT, deadline_ms=600, top_k=3, context_tokens=600, system_words=60, answer_tokens=60), Pace(2.0)
    ),
    "bulk": Preset(
        Ask(
            Kind.CHAT,
            deadline_ms=30_000,
            top_k=20,
            context_tokens=4000,
            system_words=400,
            answer_tokens=512,
            priority="batch",
        ),
        Pace(10.0),
        exponent=None,
    ),
}


def preset(name: str) -> Preset:
    """Raises NotFound, naming those there are."""
    if name not in PRESETS:
        raise NotFound("preset", name, PRESETS)
    return PRESETS[name]
