"""A run, a climb and a comparison as tables for a terminal. Times are milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isinf

from rich.console import Console
from rich.table import Table

from benchmarks.load.climbing import Climb, Step
from benchmarks.load.comparing import Comparison, Ratio
from benchmarks.load.figures import LATENESS, Figures, Spread
from benchmarks.load.plan import Kind, Plan
from benchmarks.load.recording import Recording

BUSY = 0.7  # of one core, from which the generator's own loop stands in a line of its own


def show_run(recording: Recording, run: Figures, console: Console, price_per_hour: float | None = None) -> None:
    """Everything of one run; what makes it void comes last, where it is read."""
    plan = recording.plan
    console.print(describe(plan), highlight=False)
    facts = ", ".join(f"{name} {value}" for name, value in recording.server.items())
    console.print(f"the service: {facts}", style="dim", highlight=False, soft_wrap=True)
    console.print(_times(plan, run))
    if run.waited:
        console.print(_stages(run))
    for line in _lines(plan, run, price_per_hour):
        console.print(line, highlight=False, soft_wrap=True)
    if run.busy > BUSY:
        console.print(
            f"The generator used {run.busy:.0%} of a core: part of these times is its own. Give it another machine.",
            style="yellow",
        )
    if run.void:
        console.print(void(run), style="red", highlight=False, soft_wrap=True)


def describe(plan: Plan) -> str:
    """The load in one sentence."""
    pace, ask = plan.pace, plan.ask
    if pace.closed:
        each = f", each asking {1 / pace.interval:g} times a second at most" if pace.interval else ""
        how = f"closed loop, {pace.callers} callers{each}"
    else:
        how = f"open loop, Poisson arrivals, {pace.rate:g}/s"
    drawn = "in their order" if plan.exponent is None else f"by Zipf {plan.exponent:g}"
    deadline = f", {ask.deadline_ms:g} ms" if ask.deadline_ms is not None else ", no deadline"
    return (
        f"{how}, {plan.seconds:g} s; {ask.kind.value} from '{ask.collection}'{deadline}; {len(plan.queries)} queries "
        f"{drawn}, seed {plan.seed}"
    )


def void(run: Figures) -> str:
    """Why the figures of a run are not the service's."""
    return (
        f"VOID: the generator sent late: p99 {run.lateness.p99 * 1000:.1f} ms, of {LATENESS * 1000:g} ms at most. "
        "These figures are of the generator's machine. Lower the rate, or give it cores of its own."
    )


def show_step(step: Step, console: Console) -> None:
    """One line of a climb."""
    said = "held" if step.held else "void, the generator was late" if step.figures.void else "not held"
    p99 = step.figures.promised.p99 * 1000
    line = f"{step.rate:8.1f}/s  p99 {p99:7.1f} ms  spoiled {step.figures.spoiled:6.2%}  {said}"
    console.print(line, highlight=False)


def show_climb(climb: Climb, plan: Plan, console: Console, price_per_hour: float | None = None) -> None:
    """What was found."""
    if not climb.sustained:
        console.print("No rate held: start lower with --rate, or give a longer deadline.", style="red")
        return
    deadline = f"p99 within {plan.ask.deadline_ms:g} ms and under 1 % spoiled"
    console.print(f"sustained: {climb.sustained:.1f}/s ({deadline})", style="bold", highlight=False)
    if climb.limited_by_generator:
        console.print("The generator was the limit: the service may sustain more.", style="yellow")
    if price_per_hour is not None:
        cost = 1000 * price_per_hour / (3600 * climb.sustained)
        console.print(f"1,000 requests at that rate: {cost:.4g} (at {price_per_hour:g} an hour)", highlight=False)


def show_comparison(comparison: Comparison, console: Console) -> None:
    """What changed, and every ratio with its interval."""
    if comparison.changed:
        for name, (was, now) in comparison.changed.items():
            console.print(f"changed: {name}: {was!r} -> {now!r}", highlight=False, soft_wrap=True)
    else:
        console.print("changed: nothing that is known of")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (f"{comparison.pairs} pairs by {comparison.paired_by}", "old", "new", "ratio", "95 % interval", ""):
        table.add_column(heading, justify="left" if not table.columns or not heading else "right")
    for ratio in comparison.ratios:
        is_share = ratio.name == "answered in time"
        old, new = (f"{value:.2%}" if is_share else f"{value * 1000:.2f}" for value in (ratio.old, ratio.new))
        interval = f"{_bare(ratio.low)} … {_bare(ratio.high)}"
        table.add_row(
            ratio.name, old, new, _bare(ratio.ratio), interval, _verdict(ratio), style="red" if ratio.worse else ""
        )
    console.print(table)
    if comparison.alike is not None:
        console.print(f"the same passages in the same order: {comparison.alike:.1%} of the pairs", highlight=False)
    console.print(
        "REGRESSION" if comparison.regressed else "no regression", style="red" if comparison.regressed else "green"
    )


def _times(plan: Plan, run: Figures) -> Table:
    table = _table("ms", "requests")
    _row(
        table,
        "answered, from the scheduled send" if not plan.pace.closed else "answered, as its callers saw it",
        run.latency,
    )
    if plan.pace.closed and run.corrected:
        _row(table, "the same, corrected for what was not asked", run.corrected)
    if plan.ask.kind is Kind.CHAT:
        _row(table, "first token (TTFT)", run.first_token)
        if run.per_token.count:
            _row(table, "per output token, as counted upstream", run.per_token)
        _row(table, "between chunks (not tokens)", run.gaps)
    _row(table, "generator's lateness", run.lateness)
    return table


def _stages(run: Figures) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("stage", "waited p50", "p95", "p99", "worked p50", "p95", "p99"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for stage, waited in run.waited.items():
        worked = run.worked[stage]
        spreads = (waited.p50, waited.p95, waited.p99, worked.p50, worked.p95, worked.p99)
        table.add_row(stage, *(f"{value * 1000:.2f}" for value in spreads))
    return table


def _lines(plan: Plan, run: Figures, price_per_hour: float | None) -> Iterable[str]:
    yield (
        f"sent {run.sent}, answered {run.answered} ({run.throughput:.2f}/s), in time {run.in_time} "
        f"({run.goodput:.2f}/s), spoiled {run.spoiled:.2%}"
    )
    if plan.pace.closed and run.corrected is None:
        yield "closed loop, uncorrected: what was not asked while the service stalled is not in these times"
    yield f"degraded: {_shares(run.degraded)}"
    yield f"refused or unanswered: {', '.join(f'{count} x {what}' for what, count in run.refusals.items()) or 'none'}"
    if run.hit_rates:
        yield f"found in caches: {_shares(run.hit_rates)}"
    if plan.ask.kind is Kind.CHAT:
        yield (
            f"tokens, as the model server counted them: {run.tokens_out} out ({run.tokens_out / run.seconds:.1f}/s), "
            f"{run.tokens_in} in, {run.tokens_cached} of these cached"
            if run.tokens_in
            else "tokens: the model server counted none"
        )
    if price_per_hour is not None:
        cost = run.cost(price_per_hour)
        said = "none was answered" if isinf(cost) else f"{cost:.4g}"
        yield f"1,000 answers at this throughput: {said} (at {price_per_hour:g} an hour)"


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2%}" for name, share in shares.items()) or "nothing"


def _table(first: str, second: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (first, second, "p50", "p95", "p99", "highest"):
        table.add_column(heading, justify="left" if heading == first else "right")
    return table


def _row(table: Table, name: str, spread: Spread) -> None:
    values = (spread.p50, spread.p95, spread.p99, spread.highest)
    table.add_row(name, str(spread.count), *(f"{value * 1000:.2f}" if spread.count else "-" for value in values))


def _bare(value: float) -> str:
    return f"{value:.3f}"


def _verdict(ratio: Ratio) -> str:
    if not ratio.judged:
        return "too few"
    return "worse" if ratio.worse else ""
