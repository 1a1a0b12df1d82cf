"""`fleetfoot bench`: load on any deployment, figures of what came back, and whether they are worse than before.

Exit statuses: 0 measured, and no worse than the baseline; 1 a regression; 2 not measured: asked wrongly, refused, or
nothing answers; 3 void, since the generator was late; 4 not comparable with the baseline.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fleetfoot.telling import HERE, AsJson, Key, TopK, print_json, show_error, told
from pipeline.errors import FleetfootError, InvalidInput

if TYPE_CHECKING:
    from benchmarks.load.apart import Progress as HowFar
    from benchmarks.load.climbing import Climb
    from benchmarks.load.comparing import Comparison
    from benchmarks.load.figures import Figures
    from benchmarks.load.plan import Plan, Target
    from benchmarks.load.recording import Recording

REGRESSION, NOT_MEASURED, VOID, NOT_COMPARABLE = 1, 2, 3, 4

LOAD, ASKED, COMPARED, WRITTEN = "Load", "What is asked", "Comparing", "What is written"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one call of the command found out."""

    recording: Recording
    figures: Figures
    climb: Climb | None
    comparison: Comparison | None

    def status(self) -> int:
        """The exit status. A void run says nothing, so it is no regression either."""
        if self.figures.void:
            return VOID
        if self.climb is not None and not self.climb.sustained:
            return NOT_MEASURED
        return REGRESSION if self.comparison is not None and self.comparison.regressed else 0

    def beside(self) -> dict[str, Any]:
        """What is written beside the recording: the figures, and what else was asked for."""
        more = {"climb": self.climb, "comparison": self.comparison}
        return {"figures": self.figures.to_json(), **{name: it.to_json() for name, it in more.items() if it}}


@told
def bench(
    url: Annotated[str, typer.Argument(envvar="FLEETFOOT_URL", help="Where the service listens.")] = HERE,
    preset: Annotated[
        str, typer.Option(help="search, chat, voice or bulk: the kind of traffic.", rich_help_panel=LOAD)
    ] = "search",
    rate: Annotated[
        float | None, typer.Option(help="Requests a second, as Poisson arrivals.", rich_help_panel=LOAD)
    ] = None,
    callers: Annotated[
        int | None,
        typer.Option(help="A closed loop of this many callers, each waiting for its answer.", rich_help_panel=LOAD),
    ] = None,
    find_rate: Annotated[
        bool,
        typer.Option("--find-rate", help="Find the highest rate that keeps the deadline.", rich_help_panel=LOAD),
    ] = False,
    seconds: Annotated[float | None, typer.Option(help="How long is measured.", rich_help_panel=LOAD)] = None,
    warm_up: Annotated[
        float | None, typer.Option(help="Seconds of the same load before, not counted.", rich_help_panel=LOAD)
    ] = None,
    warm_up_requests: Annotated[
        int, typer.Option(help="So many requests before, instead of seconds.", rich_help_panel=LOAD)
    ] = 0,
    seed: Annotated[int, typer.Option(help="The same seed sends the same requests.", rich_help_panel=LOAD)] = 1,
    connections: Annotated[int, typer.Option(help="Opened before the first request.", rich_help_panel=LOAD)] = 32,
    collection: Annotated[
        str, typer.Option("--collection", "-c", help="A collection, or collection@profile.", rich_help_panel=ASKED)
    ] = "handbook",
    queries: Annotated[
        Path | None,
        typer.Option(help="One a line, or BEIR's queries.jsonl; else the sample handbook's.", rich_help_panel=ASKED),
    ] = None,
    zipf: Annotated[
        float | None, typer.Option(help="Exponent of the queries' popularity; 0: all alike.", rich_help_panel=ASKED)
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Each query once before any comes again.", rich_help_panel=ASKED)
    ] = False,
    deadline_ms: Annotated[
        float | None,
        typer.Option(help="Of a retrieval's answer, or of a chat's first token.", rich_help_panel=ASKED),
    ] = None,
    top_k: TopK = None,
    context_tokens: Annotated[
        int | None, typer.Option(help="Tokens of passages at most.", rich_help_panel=ASKED)
    ] = None,
    system_words: Annotated[
        int | None, typer.Option(help="Length of a chat's system message.", rich_help_panel=ASKED)
    ] = None,
    answer_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a chat's answer at most.", rich_help_panel=ASKED)
    ] = None,
    priority: Annotated[
        str | None, typer.Option(help="interactive or batch: who goes first.", rich_help_panel=ASKED)
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(help="NAME=JSON, sent with every request as it is.", rich_help_panel=ASKED),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="An earlier --out; exits 1 when this run is worse.", rich_help_panel=COMPARED)
    ] = None,
    several_factors: Annotated[
        bool,
        typer.Option("--several-factors", help="Compare though more than one thing changed.", rich_help_panel=COMPARED),
    ] = False,
    margin: Annotated[
        float, typer.Option(help="What counts as no change: .05 is 5 %.", rich_help_panel=COMPARED)
    ] = 0.05,
    factor: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE that only you know of, such as machine=c7i.", rich_help_panel=COMPARED),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for factors, samples and figures.", rich_help_panel=WRITTEN)
    ] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(help="Of the service's machines: tells what 1,000 cost.", rich_help_panel=WRITTEN)
    ] = None,
    as_json: AsJson = False,
    key: Key = None,
) -> None:
    """Put load on a service, and show where its time went. Exits 1 on a regression, 3 when the run is void."""
    from benchmarks.load.comparing import ComparingOptions, NotComparable
    from benchmarks.load.plan import Target
    from benchmarks.load.reporting import show_climb, show_comparison, show_run

    console = Console(stderr=as_json, quiet=as_json)
    try:
        plan = planned(
            preset,
            queries=queries,
            collection=collection,
            told=_named(factor, "--factor"),
            fields={name: _json(name, value) for name, value in _named(field, "--field").items()},
            pace={"rate": rate, "callers": callers},
            ask={
                "deadline_ms": deadline_ms,
                "top_k": top_k,
                "context_tokens": context_tokens,
                "system_words": system_words,
                "answer_tokens": answer_tokens,
                "priority": priority,
            },
            run={"seconds": seconds, "warm_up": warm_up, "exponent": zipf},
            rest={"warm_up_requests": warm_up_requests, "seed": seed, "connections": connections},
            in_order=in_order,
        )
        options = ComparingOptions(margin=margin, several_factors=several_factors)
        measured = measure(plan, Target(url, key), console, baseline, options, find_rate=find_rate)
        if out:
            measured.recording.write(out, **measured.beside())
    except NotComparable as error:
        show_error(error)
        raise typer.Exit(NOT_COMPARABLE) from error
    except FleetfootError as error:
        show_error(error)
        raise typer.Exit(NOT_MEASURED) from error
    if as_json:
        print_json({"factors": measured.recording.factors(), **measured.beside()})
    show_run(measured.recording, measured.figures, console, price_per_hour)
    if measured.climb:
        show_climb(measured.climb, plan, console, price_per_hour)
    if measured.comparison:
        show_comparison(measured.comparison, console)
    if status := measured.status():
        raise typer.Exit(status)


def planned(
    name: str,
    *,
    queries: Path | None,
    collection: str,
    told: dict[str, str],
    fields: dict[str, Any],
    pace: dict[str, Any],
    ask: dict[str, Any],
    run: dict[str, Any],
    rest: dict[str, Any],
    in_order: bool,
) -> Plan:
    """The preset, with what was given in its place. Raises InvalidInput for what cannot be."""
    from benchmarks.load.plan import Plan
    from benchmarks.load.presets import preset
    from benchmarks.load.queries import SAMPLE, read

    chosen = preset(name)
    where, _, profile = collection.partition("@")
    asked = replace(chosen.ask, collection=where, profile=profile or None, fields=fields, **_given(ask))
    closed = pace["callers"] is not None  # such callers ask again at once, unless a rate is given too
    paced = replace(chosen.pace, **(pace if closed else _given(pace)))
    own = {"seconds": chosen.seconds, "warm_up": chosen.warm_up, "exponent": chosen.exponent, **_given(run)}
    if in_order:
        own["exponent"] = None
    return Plan(read(queries or SAMPLE), asked, paced, told=told, **own, **rest)


def measure(
    plan: Plan, target: Target, console: Console, baseline: Path | None, options: Any, *, find_rate: bool
) -> Measured:
    """Runs, or climbs, and compares. The baseline is looked at first: a bad one should not cost a run."""
    from benchmarks.load.apart import run_apart
    from benchmarks.load.climbing import ClimbingOptions, climb
    from benchmarks.load.comparing import check, compare
    from benchmarks.load.figures import figures
    from benchmarks.load.recording import Recording
    from benchmarks.load.reporting import show_step

    old = Recording.read(baseline) if baseline else None
    if old:
        if find_rate:
            raise InvalidInput("A climb has no baseline: compare two runs at one rate, without --find-rate.")
        check(old.plan.factors(), plan.factors(), options)

    async def run(of: Plan) -> Recording:
        with _bar(of, console) as moved:
            return await run_apart(of, target, moved)

    async def go() -> tuple[Recording, Climb | None]:
        if not find_rate:
            return await run(plan), None
        climbed = await climb(plan, run, ClimbingOptions(), lambda step: show_step(step, console))
        return climbed.recording, climbed

    recording, climbed = asyncio.run(go())
    found = figures(recording)
    compared = compare(old, recording, options) if old and not found.void else None
    return Measured(recording, found, climbed, compared)


@contextmanager
def _bar(plan: Plan, console: Console) -> Generator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} ended, {task.fields[failed]} of these without an answer"),
        TimeElapsedColumn(),
    )
    rate = f"{plan.pace.rate:g}/s" if plan.pace.rate else f"{plan.pace.callers} callers"
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(rate, total=None, failed=0)

        def moved(far: HowFar) -> None:
            bars.update(task, completed=far.ended, total=far.expected or None, failed=far.ended - far.answered)

        yield moved


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _named(given: list[str] | None, option: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in given or ()]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise InvalidInput(f"{option} takes NAME=VALUE, and '{name}' has no '='.", field=option)
    return {name: value for name, _, value in pairs}


def _json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError as failure:
        raise InvalidInput(
            f"--field {name}: {value!r} is no JSON ({failure}). A text needs quotes: {name}='\"{value}\"'.",
            field="--field",
        ) from failure
