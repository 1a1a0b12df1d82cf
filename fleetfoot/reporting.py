"""How far an ingest is, as somebody watches it: bars for people, a line of JSON a step for programs, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_SECONDS = 1.0  # between two lines that tell only of progress


@dataclass(frozen=True, slots=True)
class Standing:
    """How all of it stands, however many jobs it is: documents by state, of `total`, of which `sent` need no sending.

    `rate` is in documents and passages a second, `left` in seconds; None where nothing can be said.
    """

    total: int
    sent: int
    done: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    rate: tuple[float, float] | None = None
    left: float | None = None


class Watcher(Protocol):
    """Somebody who is told of each step."""

    def moved(self, standing: Standing) -> None:
        """How it stands now; called often."""
        ...

    def told(self, event: str, **said: object) -> None:
        """Something that happened once: a job accepted, a file known or refused, a document failed."""
        ...


class Bars:
    """Two bars: what was sent, and what is searchable or will never be."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._sent, self._done = bars.task_ids

    def moved(self, standing: Standing) -> None:
        """Draws."""
        self._bars.update(self._sent, completed=standing.sent)
        self._bars.update(self._done, completed=standing.done, note=note_of(standing))

    def told(self, event: str, **said: object) -> None:
        """Nothing: what happened once is in the bars, and in what is printed at the end."""


class Lines:
    """A JSON object on each line, as it happens: `{"event": "accepted", "job": "731e…", "documents": 64}`."""

    def __init__(self, write: Callable[[str], object], now: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._now = now
        self._last = -LINE_SECONDS
        self._said: Standing | None = None

    def moved(self, standing: Standing) -> None:
        """Not more often than once a second, and only what is new."""
        now = self._now()
        if standing != self._said and now - self._last >= LINE_SECONDS:
            self._last, self._said = now, standing
            rate = standing.rate and {"documents": standing.rate[0], "passages": standing.rate[1]}
            self.told(
                "progress",
                total=standing.total,
                sent=standing.sent,
                done=standing.done,
                counts=dict(standing.counts),
                rate=rate,
                time_left_ms=None if standing.left is None else round(standing.left * 1000),
            )

    def told(self, event: str, **said: object) -> None:
        """At once."""
        self._write(json.dumps({"event": event, **said}, ensure_ascii=False) + "\n")


@contextmanager
def watching(console: Console, total: int, *, lines: bool = False, sent: bool = True) -> Generator[Watcher]:
    """Bars on the console while the block runs (none where it is quiet), or lines on standard output."""
    if lines:
        yield Lines(_written)
        return
    bars = Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
        console=console,
        disable=console.quiet,
    )
    bars.add_task("sent", total=total, note="", visible=sent)
    bars.add_task("searchable", total=total, note="")
    with bars:
        yield Bars(bars)


def note_of(standing: Standing) -> str:
    """What stands behind the bar: states that are not the bar's own, how quickly it goes, and what is left."""
    parts = [f"{count} {state}" for state, count in sorted(standing.counts.items()) if state != "published"]
    if standing.rate is not None and standing.done < standing.total:
        parts.append(f"{standing.rate[0]:.1f} documents/s, {standing.rate[1]:.0f} passages/s")
    if standing.left is not None and standing.done < standing.total:
        parts.append(f"{duration(standing.left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """As people say it: 45 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _written(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
