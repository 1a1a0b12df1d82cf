"""Two runs beside each other: what differed between them, and by how much the answers became slower or quicker.

Requests are compared in pairs, since queries differ more from each other than two versions do: with the same seed,
request 17 of both asked the same query after the same others. Intervals are bootstrapped from the pairs, in blocks of
neighbours (Künsch, Annals of Statistics 17, 1989), because who stood in one line is late together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil, isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.load.figures import in_time
from benchmarks.load.plan import Kind
from benchmarks.load.recording import Recording, Sample
from pipeline.errors import InvalidInput

Numbers = npt.NDArray[np.float64]
Factors = Mapping[str, Any]
Statistic = Callable[[Numbers, Numbers], float]

PAIRING = ("queries", "seed", "exponent", "ask.kind")  # with these alike, equal numbers ask equal queries


class NotComparable(InvalidInput):
    """Two runs that say nothing about each other; the message tells why and what to do."""


@dataclass(frozen=True, slots=True)
class ComparingOptions:
    """`margin` is what counts as no change: .05 is 5 %. `level` of the intervals, from `draws` resamples from `seed`.

    A tail is judged only where at least `tail` pairs lie in it: 100 pairs for a p95, 500 for a p99.
    """

    margin: float = 0.05
    level: float = 0.95
    draws: int = 2000
    tail: int = 5
    seed: int = 1
    several_factors: bool = False


@dataclass(frozen=True, slots=True)
class Ratio:
    """New by old of one figure, with its interval. `judged` is False where there are too few pairs to tell."""

    name: str
    old: float
    new: float
    ratio: float
    low: float
    high: float
    judged: bool
    worse: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`changed` maps a factor to what it was and what it is. `alike` is the share of pairs that found the same
    passages in the same order, None where none were told."""

    changed: Mapping[str, tuple[Any, Any]]
    paired_by: str
    pairs: int
    ratios: tuple[Ratio, ...]
    alike: float | None

    @property
    def regressed(self) -> bool:
        """Whether any interval lies wholly beyond the margin, on the wrong side."""
        return any(ratio.worse for ratio in self.ratios)

    def to_json(self) -> dict[str, Any]:
        """As JSON; `old` and `new` of times are seconds."""
        return {
            "changed": {name: list(values) for name, values in self.changed.items()},
            "paired_by": self.paired_by,
            "pairs": self.pairs,
            "same_passages": self.alike,
            "regressed": self.regressed,
            "ratios": [asdict(each) for each in self.ratios],
        }


def check(before: Factors, after: Factors, options: ComparingOptions) -> dict[str, tuple[Any, Any]]:
    """Every factor that is not the same in both, with both values; None where one does not have it.

    Raises NotComparable when there are more than one, or when nothing can be paired.
    """
    names = dict.fromkeys([*before, *after])
    changed = {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
    for name in ("queries", "ask.kind"):
        if name in changed:
            was, now = changed[name]
            raise NotComparable(
                f"Nothing can be paired: '{name}' was {was} and is {now}. Ask the same queries of the same endpoint."
            )
    if len(changed) > 1 and not options.several_factors:
        listed = "; ".join(f"{name} was {was!r}, is {now!r}" for name, (was, now) in changed.items())
        raise NotComparable(
            f"{len(changed)} factors changed, so no one of them can be told to be the cause: {listed}. Change one at "
            "a time, or say --several-factors."
        )
    return changed


def compare(old: Recording, new: Recording, options: ComparingOptions = ComparingOptions()) -> Comparison:
    """Raises NotComparable as `check` does, and where no pair was answered in both runs."""
    changed = check(old.factors(), new.factors(), options)
    by_request = not any(name in changed for name in PAIRING)
    pairs = _by_request(old, new) if by_request else _by_query(old, new)
    answered = [(was, now) for was, now in pairs if was.answered and now.answered]
    if not answered:
        raise NotComparable("No request was answered in both runs, so there is nothing to compare.")
    judge = _Judge(options, blocks=by_request)
    ratios = judge.times("latency", [(was.latency, now.latency) for was, now in answered])
    if new.plan.ask.kind is Kind.CHAT:
        firsts = [(was.first_token, now.first_token) for was, now in answered]
        ratios += judge.times("first token", [(a, b) for a, b in firsts if a is not None and b is not None])
    ratios.append(judge.share("answered in time", [(in_time(old.plan, a), in_time(new.plan, b)) for a, b in pairs]))
    found = [was.found == now.found for was, now in answered if was.found and now.found]
    return Comparison(
        changed,
        "request" if by_request else "query",
        len(pairs),
        tuple(ratios),
        sum(found) / len(found) if found else None,
    )


class _Judge:
    """Bootstraps from pairs in the order of sending."""

    def __init__(self, options: ComparingOptions, *, blocks: bool) -> None:
        self._options = options
        self._blocks = blocks

    def times(self, name: str, pairs: list[tuple[float, float]]) -> list[Ratio]:
        if not pairs:
            return []
        old, new = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
        rows = [self._ratio(f"{name}, paired median", old, new, _paired_median, 0.5, np.median)]
        rows += [
            self._ratio(f"{name}, p{share * 100:.0f}", old, new, _of_quantiles(share), share, _quantile(share))
            for share in (0.95, 0.99)
        ]
        return rows

    def share(self, name: str, pairs: list[tuple[bool, bool]]) -> Ratio:
        old, new = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
        return self._ratio(name, old, new, _of_means, 0.5, np.mean, more_is_better=True)

    def _ratio(
        self,
        name: str,
        old: Numbers,
        new: Numbers,
        statistic: Statistic,
        share: float,
        shown: Callable[[Numbers], Any],
        *,
        more_is_better: bool = False,
    ) -> Ratio:
        options = self._options
        drawn = sorted(statistic(old[places], new[places]) for places in self._resamples(len(old)))
        cut = (1 - options.level) / 2
        low, high = (drawn[min(int(part * len(drawn)), len(drawn) - 1)] for part in (cut, 1 - cut))
        judged = len(old) * (1 - share) >= options.tail
        beyond = high < 1 / (1 + options.margin) if more_is_better else low > 1 + options.margin
        ratio = statistic(old, new)
        return Ratio(name, float(shown(old)), float(shown(new)), ratio, low, high, judged, judged and beyond)

    def _resamples(self, count: int) -> Iterator[npt.NDArray[np.int64]]:
        """Places of one resample each: blocks of about √count neighbours, round the end, as many as fill it."""
        chance = np.random.default_rng(self._options.seed)
        length = max(isqrt(count), 1) if self._blocks else 1
        starts = chance.integers(0, count, size=(self._options.draws, ceil(count / length)))
        within = np.arange(length)
        for start in starts:
            yield ((start[:, None] + within) % count).ravel()[:count]


def _paired_median(old: Numbers, new: Numbers) -> float:
    return float(np.median(new / old))


def _of_quantiles(share: float) -> Statistic:
    at = _quantile(share)
    return lambda old, new: at(new) / at(old)


def _quantile(share: float) -> Callable[[Numbers], float]:
    """By nearest rank, as the figures of a run are."""

    def at(values: Numbers) -> float:
        place = max(ceil(share * len(values)) - 1, 0)
        return float(np.partition(values, place)[place])

    return at


def _of_means(old: Numbers, new: Numbers) -> float:
    before, after = float(old.mean()), float(new.mean())
    return after / before if before else 1.0 if not after else float("inf")


def _by_request(old: Recording, new: Recording) -> list[tuple[Sample, Sample]]:
    before = {sample.number: sample for sample in old.samples}
    return [(before[each.number], each) for each in new.samples if each.number in before]


def _by_query(old: Recording, new: Recording) -> list[tuple[Sample, Sample]]:
    """For each query that both asked, the request of median latency of each run."""
    before, after = _typical(old), _typical(new)
    return [(before[query], after[query]) for query in before if query in after]


def _typical(recording: Recording) -> dict[int, Sample]:
    asked: dict[int, list[Sample]] = {}
    for sample in recording.samples:
        asked.setdefault(sample.query, []).append(sample)
    return {query: _middle(samples) for query, samples in sorted(asked.items())}


def _middle(samples: list[Sample]) -> Sample:
    ordered = sorted(samples, key=lambda sample: sample.latency)
    return ordered[(len(ordered) - 1) // 2]
