"""The waterfall of a request: when each stage began, how long it waited and how long it worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from rich.table import Table
from rich.text import Text

from fleetfoot.client import Json, StageTiming

WIDTH = 36  # characters of the bar where there is room
NARROWEST = 8
FIGURES = 44  # characters that the figures beside the bar take
CUT = "✂"  # ends the bar of a stage that was cut off at its allowance, and survives without colour


def waterfall(timings: Sequence[StageTiming], room: int = 80) -> Table:
    """A table with a row a stage, in the order in which they began, `room` characters wide. Times are milliseconds."""
    width = max(NARROWEST, min(WIDTH, room - FIGURES))
    rows = sorted(timings, key=lambda timing: timing.started_ms)
    legend = "░ waited  █ worked" + (f"  {CUT} cut off" if any(row.cut for row in rows) else "")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ms", no_wrap=True)
    table.add_column("waited", justify="right")
    table.add_column("worked", justify="right")
    table.add_column("granted", justify="right")
    table.add_column(legend, no_wrap=True)
    whole = max((row.started_ms + row.waited_ms + row.worked_ms for row in rows), default=0.0) or 1.0
    for row in rows:
        granted = "" if row.granted_ms is None else f"{row.granted_ms:.0f}"
        table.add_row(row.stage, f"{row.waited_ms:.1f}", f"{row.worked_ms:.1f}", granted, bar(row, whole, width))
    return table


def bar(row: StageTiming, whole: float, width: int) -> Text:
    """One stage's place in `whole` milliseconds, on `width` characters: where it began, waited, worked and was cut."""
    begin = min(round(row.started_ms / whole * width), width - 1)
    waited = min(round(row.waited_ms / whole * width), width - begin)
    worked = min(max(round(row.worked_ms / whole * width), 0 if waited else 1), width - begin - waited)
    drawn = Text.assemble(" " * begin, "░" * waited, ("█" * worked, "red" if row.cut else "green"))
    if row.cut:
        drawn.right_crop(1)
        drawn.append(CUT, "red")
    return drawn


def kept(timings: Json) -> str:
    """What was promised and what came of it, in one line: `first token after 251 of 800 ms, all after 263 ms`."""
    first, promised = timings["first_token_ms"], timings["deadline_ms"]
    of = "" if promised is None else f" of {promised:.0f}"
    if first is None:
        return f"all after {timings['total_ms']:.0f}{of} ms{known(timings)}"
    return f"first token after {first:.0f}{of} ms, all after {timings['total_ms']:.0f} ms{known(timings)}"


def known(timings: Json) -> str:
    """What caches had of this request: `; from caches 1 of 1 retrievals`, and nothing where they had nothing."""
    uses = cast("Mapping[str, Json]", timings.get("caches") or {})
    had = [f"{use['hits']} of {use['asked']} {name.replace('_', ' ')}" for name, use in uses.items() if use["hits"]]
    return f"; from caches {', '.join(had)}" if had else ""
