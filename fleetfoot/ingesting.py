"""`fleetfoot ingest`: files and folders to the service, and what became of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fleetfoot.client import Client, Json
from pipeline.errors import InvalidInput

FILES_A_REQUEST = 64
BYTES_A_REQUEST = 16_000_000
FINAL = ("published", "unchanged", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of the files: counts by state, and (name, reason) of the failed ones."""

    jobs: tuple[str, ...]
    counts: dict[str, int]
    failed: tuple[tuple[str, str], ...]
    generation: int | None

    def json(self) -> Json:
        """For `--json`."""
        return {
            "jobs": list(self.jobs),
            "counts": self.counts,
            "failed": [{"name": name, "reason": reason} for name, reason in self.failed],
            "generation": self.generation,
        }


def files_below(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """Every file that was named or lies below a named folder, with the name it will have in the collection.

    A file in a folder is named by its path below that folder, a single file by its own name. Hidden files and folders
    are passed over. Raises InvalidInput for a path that does not exist.
    """
    found: list[tuple[str, Path]] = []
    for path in paths:
        if path.is_dir():
            found += [
                (str(below.relative_to(path)), below)
                for below in sorted(path.rglob("*"))
                if below.is_file() and not any(part.startswith(".") for part in below.relative_to(path).parts)
            ]
        elif path.is_file():
            found.append((path.name, path))
        else:
            raise InvalidInput(f"There is no file or folder '{path}'.", field="PATH")
    if not found:
        raise InvalidInput(f"There is no file below {', '.join(map(str, paths))}.", field="PATH")
    return found


async def ingest(client: Client, collection: str, paths: Sequence[Path], console: Console, *, wait: bool) -> Ingested:
    """Sends the files and, when asked to wait, shows a live bar until every one is searchable or has failed."""
    files = files_below(paths)
    bars = Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
        console=console,
        disable=console.quiet,
    )
    with bars:
        sent = bars.add_task("sent", total=len(files), note="")
        done = bars.add_task("searchable", total=len(files), note="")
        jobs: dict[str, Json] = {}
        for batch in _batches(files):
            job = await client.upload(collection, batch)
            jobs[job["id"]] = job
            bars.advance(sent, len(batch))
        if wait:
            for job_id in jobs:
                async for name, data in client.events("GET", f"/v1/jobs/{job_id}/events"):
                    if name in {"progress", "message", "done"}:
                        jobs[job_id] = json.loads(data)
                        counts = _counts(jobs.values())
                        note = ", ".join(f"{count} {state}" for state, count in counts.items() if state != "published")
                        bars.update(done, completed=sum(counts[state] for state in FINAL), note=note)
    failed = tuple((item["name"], item["reason"]) for job in jobs.values() for item in job["failed"])
    generations = [job["generation"] for job in jobs.values() if job["generation"] is not None]
    return Ingested(tuple(jobs), dict(_counts(jobs.values())), failed, max(generations, default=None))


def show(ingested: Ingested, console: Console) -> None:
    """Says how it went, and for each failed file why."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(ingested.counts.items()))
    console.print(f"{sum(ingested.counts.values())} documents: {counts}")
    for name, reason in ingested.failed:
        console.print(f"  [red]failed[/red] {escape(name)}: {escape(reason)}", highlight=False, soft_wrap=True)


def _batches(files: Sequence[tuple[str, Path]]) -> Generator[list[tuple[str, Path]]]:
    batch: list[tuple[str, Path]] = []
    size = 0
    for name, path in files:
        length = path.stat().st_size
        if batch and (len(batch) >= FILES_A_REQUEST or size + length > BYTES_A_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append((name, path))
        size += length
    yield batch


def _counts(jobs: Iterable[Json]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for job in jobs:
        counts.update(job["counts"])
    return counts
