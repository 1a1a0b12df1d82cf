"""The waterfall of a request: when each stage began, how long it waited and how long it worked."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fleetfoot.client import Json, StageTiming

WIDTH = 36  # characters of the bar


def waterfall(timings: Sequence[StageTiming]) -> Table:
    """A table with a row a stage, in the order in which they began. Times are milliseconds."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ms", no_wrap=True)
    table.add_column("waited", justify="right")
    table.add_column("worked", justify="right")
    table.add_column("granted", justify="right")
    table.add_column("░ waited  █ worked", no_wrap=True)
    rows = sorted(timings, key=lambda timing: timing.started_ms)
    whole = max((row.started_ms + row.waited_ms + row.worked_ms for row in rows), default=0.0) or 1.0
    for row in rows:
        begin = min(round(row.started_ms / whole * WIDTH), WIDTH - 1)
        waited = round(row.waited_ms / whole * WIDTH)
        worked = max(round(row.worked_ms / whole * WIDTH), 0 if waited else 1)
        bar = Text(" " * begin + "░" * min(waited, WIDTH - begin))
        bar.append("█" * min(worked, WIDTH - begin - waited), style="red" if row.cut else "green")
        granted = "" if row.granted_ms is None else f"{row.granted_ms:.0f}"
        table.add_row(row.stage, f"{row.waited_ms:.1f}", f"{row.worked_ms:.1f}", granted, bar)
    return table


def kept(timings: Json) -> str:
    """What was promised and what came of it, in one line: `first token after 251 of 800 ms, all after 263 ms`."""
    first, promised = timings["first_token_ms"], timings["deadline_ms"]
    of = "" if promised is None else f" of {promised:.0f}"
    if first is None:
        return f"all after {timings['total_ms']:.0f}{of} ms"
    return f"first token after {first:.0f}{of} ms, all after {timings['total_ms']:.0f} ms"
