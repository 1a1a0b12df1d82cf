"""`fleetfoot jobs`: what was promised for documents, and how far it is."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetfoot.client import Client, Json
from fleetfoot.reporting import duration

FINAL = ("published", "unchanged", "failed", "cancelled")  # states of a document in which it stays


async def latest_jobs(client: Client, collection: str | None, limit: int) -> Json:
    """The answer of /v1/jobs, as it came: the latest first."""
    asked = f"limit={limit}" + (f"&collection={quote(collection, safe='')}" if collection else "")
    return await client.get(f"/v1/jobs?{asked}")


async def cancelled(client: Client, job: str) -> Json:
    """The job, after what is not published yet was stopped."""
    return await client.post(f"/v1/jobs/{quote(job, safe='')}/cancel", {})


async def failed_of(client: Client, job: str) -> str:
    """All that failed in a job, as CSV."""
    return await client.text(f"/v1/jobs/{quote(job, safe='')}/failed.csv")


def show_jobs(found: Json, console: Console) -> None:
    """A row a job."""
    if not found["data"]:
        console.print("Nothing was sent yet. Send documents with `fleetfoot ingest PATH`.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("job", "collection", "accepted", "state"):
        table.add_column(name, no_wrap=True)
    table.add_column("done", justify="right", no_wrap=True)
    table.add_column("failed", justify="right")
    for job in found["data"]:
        failed = job["counts"].get("failed", 0)
        table.add_row(
            job["id"],
            Text(job["collection"]),
            f"{datetime.fromtimestamp(job['accepted']).astimezone():%Y-%m-%d %H:%M:%S}",
            job["state"],
            f"{finished(job)}/{job['total']}",
            Text(str(failed) if failed else "", style="red"),
        )
    console.print(table, soft_wrap=True)


def show_job(job: Json, console: Console) -> None:
    """How far it is and how quickly it goes, for each failed document why, and what can be done about it."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(job["counts"].items()))
    lines = [f"{job['state']}, {finished(job)} of {job['total']} documents done: {states}"]
    passages, rate, left = job["passages"], job["rate"], job["time_left_ms"]
    if passages["chunked"]:
        lines.append(
            f"{passages['chunked']} passages, {passages['encoded']} encoded, {passages['published']} searchable"
        )
    if rate is not None:
        time_left = "" if left is None else f", {duration(left / 1000)} left"
        lines.append(f"{rate['documents']:.1f} documents/s, {rate['passages']:.0f} passages/s{time_left}")
    if job["webhook"] is not None:
        lines.append(_told(job["webhook"]))
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    show_failed([(each["name"], each["reason"]) for each in job["failed"]], console)
    if job["retryable"]:
        again = f"{job['retryable']} can be tried again without being sent again: `fleetfoot jobs {job['id']} --retry`"
        console.print(again, highlight=False, markup=False, soft_wrap=True)


def _told(webhook: Json) -> str:
    said = f"webhook {webhook['url']}: {webhook['state']}, {webhook['attempts']} attempts"
    return f"{said}. {webhook['reason']}" if webhook["reason"] else said


def show_failed(failed: list[tuple[str, str]], console: Console) -> None:
    """A line for each document that cannot be read, with its reason."""
    for name, reason in failed:
        console.print(Text.assemble("  ", ("failed", "red"), f" {name}: {reason}"), highlight=False, soft_wrap=True)


def finished(job: Json) -> int:
    """How many of the job's documents are in a state in which they stay."""
    return sum(job["counts"].get(state, 0) for state in FINAL)
