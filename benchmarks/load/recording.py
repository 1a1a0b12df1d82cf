"""What came of a run: one sample a request, and what made it comparable. It is kept as JSON, in columns.

A recording names no address and no key, so that it can be shown around.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from benchmarks.load.plan import Plan
from pipeline.errors import InvalidInput

FORMAT = "fleetfoot bench"
VERSION = 1
UNANSWERED = 0  # the status of a request that got no whole answer


@dataclass(frozen=True, slots=True)
class Lap:
    """What the service told of one stage, in seconds."""

    stage: str
    waited: float
    worked: float


@dataclass(frozen=True, slots=True)
class Use:
    """How often one cache was asked for a request, and how often it had what was asked."""

    cache: str
    hits: int
    asked: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """As the model server counted them; `cached` of the prompt, None where it does not say."""

    prompt: int
    completion: int
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came; instants are those of the timer. `problem` is an error's code, empty where all went well.

    `found` is a fingerprint of the passages in their order. `chunks` are the instants of the chunks with something
    said in them: they are not tokens.
    """

    status: int
    ended: float
    problem: str = ""
    first_event: float | None = None
    chunks: tuple[float, ...] = ()
    tokens: Tokens | None = None
    degraded: tuple[str, ...] = ()
    laps: tuple[Lap, ...] = ()
    uses: tuple[Use, ...] = ()
    found: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request. `scheduled` counts from the start of what is counted; `late` is how much later it was sent.

    `latency`, `first_event` and `first_token` are seconds from the scheduled send: a request that could not leave, or
    waited in a line of its own making, was late for whoever would have asked it. `gaps` lie between chunks.
    """

    number: int
    query: int
    scheduled: float
    late: float
    latency: float
    status: int
    problem: str = ""
    first_event: float | None = None
    first_token: float | None = None
    gaps: tuple[float, ...] = ()
    tokens: Tokens | None = None
    degraded: tuple[str, ...] = ()
    laps: tuple[Lap, ...] = ()
    uses: tuple[Use, ...] = ()
    found: str = ""

    @property
    def answered(self) -> bool:
        """Whether a whole answer came, degraded or not."""
        return self.status == 200 and not self.problem

    @classmethod
    def of(cls, number: int, query: int, start: float, scheduled: float, sent: float, reply: Reply) -> Sample:
        """From the timer's instants."""
        chunks = reply.chunks
        return cls(
            number,
            query,
            scheduled - start,
            sent - scheduled,
            reply.ended - scheduled,
            reply.status,
            reply.problem,
            None if reply.first_event is None else reply.first_event - scheduled,
            chunks[0] - scheduled if chunks else None,
            tuple(after - before for before, after in pairwise(chunks)),
            reply.tokens,
            reply.degraded,
            reply.laps,
            reply.uses,
            reply.found,
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """A finished run. `server` is what the service says of itself, `generator` what this side ran on; `busy` is the
    share of one core that the generator used, `began` seconds since 1970."""

    plan: Plan
    samples: tuple[Sample, ...]
    server: Mapping[str, Any] = field(default_factory=dict[str, Any])
    generator: Mapping[str, Any] = field(default_factory=dict[str, Any])
    busy: float = 0.0
    began: float = 0.0

    def factors(self) -> dict[str, Any]:
        """All that may make this run differ from another, by name."""
        return {
            **self.plan.factors(),
            **{f"server.{name}": value for name, value in self.server.items()},
            **{f"generator.{name}": value for name, value in self.generator.items()},
        }

    def to_json(self) -> dict[str, Any]:
        """As JSON; times in milliseconds to the microsecond."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "began": self.began,
            "factors": self.factors(),
            "plan": self.plan.to_json(),
            "server": dict(self.server),
            "generator": dict(self.generator),
            "busy": round(self.busy, 4),
            "samples": _columns(self.samples),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Recording:
        """What `to_json` wrote. Raises InvalidInput for anything else."""
        if told.get("format") != FORMAT or told.get("version") != VERSION:
            raise InvalidInput(
                f"This is no recording of `fleetfoot bench` in version {VERSION} of its format, but "
                f"{told.get('format')!r} in version {told.get('version')!r}. Measure anew with --out."
            )
        plan = Plan.from_json(told["plan"])
        return cls(plan, _rows(told["samples"]), told["server"], told["generator"], told["busy"], told["began"])

    def write(self, file: Path, **beside: Any) -> None:
        """Writes it, with what else is given beside it."""
        try:
            file.write_text(json.dumps({**self.to_json(), **beside}, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as failure:
            raise InvalidInput(f"'{file}' cannot be written: {failure.strerror}.", field="--out") from failure

    @classmethod
    def read(cls, file: Path) -> Recording:
        """From a file. Raises InvalidInput where it cannot be read or is something else."""
        try:
            told: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as failure:
            raise InvalidInput(f"The recording '{file}' cannot be read: {failure}.") from failure
        if not isinstance(told, dict):
            raise InvalidInput(f"'{file}' is no recording of `fleetfoot bench`.")
        return cls.from_json(cast("dict[str, Any]", told))


def _columns(samples: Sequence[Sample]) -> dict[str, Any]:
    stages = dict.fromkeys(lap.stage for sample in samples for lap in sample.laps)
    return {
        "number": [each.number for each in samples],
        "query": [each.query for each in samples],
        "scheduled_ms": [_ms(each.scheduled) for each in samples],
        "late_ms": [_ms(each.late) for each in samples],
        "latency_ms": [_ms(each.latency) for each in samples],
        "status": [each.status for each in samples],
        "problem": [each.problem for each in samples],
        "first_event_ms": [_ms(each.first_event) for each in samples],
        "first_token_ms": [_ms(each.first_token) for each in samples],
        "gaps_ms": [[_ms(gap) for gap in each.gaps] for each in samples],
        "tokens": [_of_tokens(each.tokens) for each in samples],
        "degraded": [list(each.degraded) for each in samples],
        "laps_ms": {stage: [_of_laps(each.laps, stage) for each in samples] for stage in stages},
        "uses": [[[use.cache, use.hits, use.asked] for use in each.uses] for each in samples],
        "found": [each.found for each in samples],
    }


def _rows(columns: Mapping[str, Any]) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            columns["number"][place],
            columns["query"][place],
            columns["scheduled_ms"][place] / 1000,
            columns["late_ms"][place] / 1000,
            columns["latency_ms"][place] / 1000,
            columns["status"][place],
            columns["problem"][place],
            _seconds(columns["first_event_ms"][place]),
            _seconds(columns["first_token_ms"][place]),
            tuple(gap / 1000 for gap in columns["gaps_ms"][place]),
            Tokens(*columns["tokens"][place]) if columns["tokens"][place] else None,
            tuple(columns["degraded"][place]),
            tuple(
                Lap(stage, laps[place][0] / 1000, laps[place][1] / 1000)
                for stage, laps in columns["laps_ms"].items()
                if laps[place]
            ),
            tuple(Use(*use) for use in columns["uses"][place]),
            columns["found"][place],
        )
        for place in range(len(columns["number"]))
    )


def _of_tokens(tokens: Tokens | None) -> list[int | None] | None:
    return None if tokens is None else [tokens.prompt, tokens.completion, tokens.cached]


def _of_laps(laps: Sequence[Lap], stage: str) -> list[float | None] | None:
    """Where a stage ran more than once in a request, its times are added up."""
    of_stage = [lap for lap in laps if lap.stage == stage]
    if not of_stage:
        return None
    return [_ms(sum(lap.waited for lap in of_stage)), _ms(sum(lap.worked for lap in of_stage))]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
