"""How much the fused order should count beside the reranker's scores: a simulation, its seed fixed.

    python -m benchmarks.merging [--queries 200] [--weights 0 0.25 0.5 0.65 0.8] [--json FILE]

Queries have 50 candidates with judgements 0, 1 and 2, few, usual or many of them relevant. The fused order knows each
judgement with Gaussian noise, the reranker with noise that is a part of that: .1 is nearly perfect, .9 barely better,
1 as good. Scoring goes down the fused order and stops after 0, 2, 4, … pairs; the scored ones are merged by the rule
with each weight. Printed for each weight and each quality of reranker, over all noises and shares of relevant ones:
nDCG@10 after 10, 20 and all pairs, and the worst fall of the mean below the best mean before it, in standard errors.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log2, sqrt
from pathlib import Path
from random import Random
from statistics import fmean, stdev

from rich.console import Console
from rich.table import Table

from rerank.merging import FUSED_WEIGHT, best_first

SEED = 20261201
CANDIDATES = 50
STOPS = (0, 4, 10, 16, 20, 30, 40, 50)
SHARES = {"few": (0.95, 0.04, 0.01), "usual": (0.86, 0.1, 0.04), "many": (0.6, 0.25, 0.15)}
FUSED_NOISES = (0.5, 0.7, 1.0, 1.5)
PARTS = (0.1, 0.4, 0.7, 0.9, 1.0)
WEIGHTS = (0.0, 0.25, 0.5, 0.65, 0.8)
DISCOUNTS = tuple(1 / log2(place + 2) for place in range(10))


@dataclass(frozen=True, slots=True)
class Line:
    """One weight and one quality of reranker. `fall` is in standard errors, at the worst noise and share."""

    weight: float
    part: float
    start: float
    after_10: float
    after_20: float
    after_all: float
    fall: float
    worst: str


def curve(
    weights: Sequence[float], share: str, noise: float, part: float, queries: int
) -> dict[float, list[list[float]]]:
    """For each weight and each query, nDCG@10 at each stop; all weights see the same queries."""
    draw = Random(f"{SEED} {share} {noise} {part}")
    found: dict[float, list[list[float]]] = {weight: [] for weight in weights}
    while len(found[weights[0]]) < queries:
        grades = draw.choices((0, 1, 2), SHARES[share], k=CANDIDATES)
        ideal = _gain(sorted(grades, reverse=True))
        if ideal == 0:
            continue
        knows = [grade + draw.gauss(0, noise) for grade in grades]
        fused = [grades[number] for number in sorted(range(CANDIDATES), key=lambda number: -knows[number])]
        scores = [grade + draw.gauss(0, noise * part) for grade in fused]
        for weight in weights:
            found[weight].append([_gain(_stopped(fused, scores[:stop], weight)) / ideal for stop in STOPS])
    return found


def measure(weights: Sequence[float] = WEIGHTS, queries: int = 200) -> list[Line]:
    """A line for each weight and quality of reranker."""
    lines: list[Line] = []
    for part in PARTS:
        means: dict[float, list[list[float]]] = {weight: [] for weight in weights}
        falls: dict[float, list[tuple[float, str]]] = {weight: [] for weight in weights}
        for share in SHARES:
            for noise in FUSED_NOISES:
                for weight, curves in curve(weights, share, noise, part, queries).items():
                    means[weight].append([fmean(values) for values in zip(*curves, strict=True)])
                    falls[weight].append((fall(curves), f"{share}, noise {noise}"))
        for weight in weights:
            at = {stop: fmean(mean[number] for mean in means[weight]) for number, stop in enumerate(STOPS)}
            worst, where = max(falls[weight])
            lines.append(Line(weight, part, at[0], at[10], at[20], at[CANDIDATES], worst, where))
    return lines


def fall(curves: Sequence[Sequence[float]]) -> float:
    """The most by which a mean lies below the best mean before it, in its own standard errors."""
    best = worst = 0.0
    for values in zip(*curves, strict=True):
        error = stdev(values) / sqrt(len(values))
        worst = max(worst, (best - fmean(values)) / error if error > 0 else 0.0)
        best = max(best, fmean(values))
    return worst


def _stopped(fused: Sequence[int], scores: Sequence[float], weight: float) -> list[int]:
    order = best_first(list(range(len(scores))), dict(enumerate(scores)), weight)
    return [fused[place] for place in order[:10]] + list(fused[len(order) :][: max(10 - len(order), 0)])


def _gain(grades: Sequence[int]) -> float:
    return sum(grade * discount for grade, discount in zip(grades, DISCOUNTS, strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    lines = measure(given.weights, given.queries)
    table = Table(title=f"nDCG@10 by the weight of the fused order (in use: {FUSED_WEIGHT})", title_justify="left")
    for column in ("reranker's noise", "weight", "0 pairs", "10", "20", "all", "worst fall", "where"):
        table.add_column(column, justify="right")
    for line in lines:
        figures = (line.start, line.after_10, line.after_20, line.after_all)
        table.add_row(
            f"{line.part:g}", f"{line.weight:g}", *(f"{value:.3f}" for value in figures), f"{line.fall:.2f}", line.worst
        )
    Console(width=110).print(table)
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))


if __name__ == "__main__":
    main()
