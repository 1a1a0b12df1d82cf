"""What comparing ours with others over 100,000 passages yields, as values and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks import beside, wrk

STAGES = ("lexical", "encode", "dense", "fuse")


@dataclass(frozen=True, slots=True)
class Side:
    """One of those compared, one caller: milliseconds of the whole and, by stage, medians; what share of the exact
    script's best ten it found; how many questions it was asked."""

    median: float
    p99: float
    stages: dict[str, float]
    shared: float
    asked: int


@dataclass(frozen=True, slots=True)
class Cached:
    """Ours with its caches on: times of popular questions, and by cache what share of those asked for were there."""

    median: float
    p99: float
    asked: int
    hit_rates: dict[str, float]
    load: wrk.Load | None


def show_one_caller(passages: int, sides: dict[str, Side], degraded: int, console: Console) -> None:
    """A row a side."""
    mine = sides["ours"]
    rows = Table(title=f"{passages} passages, one caller, ten passages asked for, no reranking, caches off; ms")
    for heading in ("", "median", "p99", *STAGES, "× ours (median)", "× ours (p99)", "shared with exact", "asked"):
        rows.add_column(heading, justify="right" if heading else "left")
    for name, side in sides.items():
        rows.add_row(
            {"ours": "ours, through HTTP", "bare": "our bare stages"}.get(name, name),
            f"{side.median:.2f}",
            f"{side.p99:.2f}",
            *(f"{side.stages[stage]:.2f}" if side.stages else "" for stage in STAGES),
            f"{side.median / mine.median:.2f}",
            f"{side.p99 / mine.p99:.2f}",
            f"{side.shared:.3f}",
            str(side.asked),
        )
    console.print(rows)
    console.print(f"ours: {degraded} of {mine.asked} answers gave something up")


def show_many_callers(
    callers: int, rates: dict[str, float], load: wrk.Load | None, no_load: str, cached: Cached, console: Console
) -> None:
    """Ours under wrk, the others' rates, and what caches are worth."""
    rows = Table(title=f"{callers} callers, a closed loop; the others' best of one and {callers} threads")
    for heading in ("", "queries/s", "ours × this", "p50", "p90", "p99", "not 2xx", "degraded"):
        rows.add_column(heading, justify="right" if heading else "left")
    for name, found in (("ours, caches off", load), ("ours, caches on", cached.load)):
        if found is None:
            rows.add_row(name, no_load or "not measured")
            continue
        times = (f"{each:.1f}" for each in (found.p50, found.p90, found.p99))
        bad = found.refused + found.socket_errors
        rows.add_row(name, f"{found.rate:.1f}", "", *times, str(bad), str(found.degraded))
    for name, rate in rates.items():
        rows.add_row(name, f"{rate:.2f}", f"{load.rate / rate:.1f}" if load else "")
    console.print(rows)
    hits = ", ".join(f"{name} {rate:.2f}" for name, rate in cached.hit_rates.items())
    console.print(
        f"ours with caches on, one caller, {cached.asked} questions by popularity: median "
        f"{cached.median:.2f} ms, p99 {cached.p99:.2f} ms; hit rates: {hits}"
    )


def show_quality(
    dense: float, judged: Sequence[beside.Kept], ndcg: dict[str, dict[str, float]], console: Console
) -> None:
    """A line a set."""
    console.print(f"dense recall@100 against exact, this set: {dense:.4f}")
    for kept in judged:
        peers = ", ".join(f"{name} {reached[kept.name]:.4f}" for name, reached in ndcg.items())
        console.print(
            f"{kept.name} with this index forced: dense recall@100 {kept.recall:.4f}; hybrid nDCG@10 {kept.ndcg:.4f}, "
            f"all exact {kept.exact_ndcg:.4f}; {peers}"
        )
