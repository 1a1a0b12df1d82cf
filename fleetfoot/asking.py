"""`fleetfoot search` and `fleetfoot ask`: passages, or a streamed answer with its sources and its waterfall."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from fleetfoot.client import Client, Json, StageTiming
from fleetfoot.waterfall import kept, waterfall
from pipeline.errors import UpstreamFailed

BEGINNING = 220  # characters of a passage that `search` shows


@dataclass(frozen=True, slots=True)
class Asked:
    """A finished answer: its text, and the `fleetfoot` extension that came with it."""

    text: str
    extension: Json

    def cited_sources(self) -> set[str]:
        """The names of the documents that the answer cites."""
        numbers = {citation["number"] for citation in self.extension["citations"]}
        return {passage["source"] for passage in self.extension["passages"] if passage["number"] in numbers}


async def search(
    client: Client,
    collection: str,
    query: str,
    *,
    top_k: int | None = None,
    deadline_ms: float | None = None,
    filters: Json | None = None,
) -> Json:
    """The answer of /v1/retrieve, as it came."""
    body: dict[str, object] = {
        "query": query,
        "collection": collection,
        "top_k": top_k,
        "deadline_ms": deadline_ms,
    }
    if filters is not None:
        body["filters"] = filters
    return await client.post("/v1/retrieve", body)


def show_passages(found: Json, console: Console) -> None:
    """One block a passage: rank, source, the ranks of the legs, the beginning of its text; then the waterfall."""
    for result in found["results"]:
        for place, passage in enumerate(result["passages"], 1):
            legs = ", ".join(f"{leg} #{hit['rank']}" for leg, hit in passage["legs"].items())
            heading = f"[bold]{place}[/bold] {escape(source_line(passage))}  [dim]{legs}[/dim]"
            console.print(heading, highlight=False, soft_wrap=True)
            console.print(Padding(Text(beginning(passage["text"])), (0, 0, 0, 3)))
        if not result["passages"]:
            console.print("Nothing was found.")
        show_degraded(result["degraded"], console)
        _show_timings(result["timings"], console)


async def ask(
    client: Client,
    model: str,
    question: str,
    console: Console,
    *,
    top_k: int | None = None,
    deadline_ms: float | None = None,
    filters: Json | None = None,
) -> Asked:
    """Streams an answer to the console as it comes. Raises UpstreamFailed when the stream breaks off."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "deadline_ms": deadline_ms,
        "retrieval": {"top_k": top_k} if filters is None else {"top_k": top_k, "filters": filters},
    }
    text: list[str] = []
    extension: Json | None = None
    with console.status("searching and reading …") as waiting:
        async for name, data in client.events("POST", "/v1/chat/completions", body):
            if data == "[DONE]":
                break
            event = json.loads(data)
            if name == "error" or "error" in event:
                raise UpstreamFailed(event["error"]["message"])
            extension = event.get("fleetfoot", extension)
            for choice in event["choices"]:
                piece = choice["delta"].get("content") or ""
                text.append(piece)
                if piece:
                    waiting.stop()
                    console.print(piece, end="", markup=False, highlight=False, soft_wrap=True)
    console.print()
    if extension is None:
        raise UpstreamFailed("The stream ended without the service's last event. Ask again; see the service's log.")
    return Asked("".join(text), extension)


def show_answered(asked: Asked, console: Console) -> None:
    """The sources that the answer cites, what was given up, and the waterfall."""
    cited = {citation["number"] for citation in asked.extension["citations"]}
    for passage in asked.extension["passages"]:
        if passage["number"] in cited:
            line = f"  [{passage['number']}] {source_line(passage)}"
            console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
    show_degraded(asked.extension["degraded"], console)
    console.print()
    _show_timings(asked.extension["timings"], console)


def source_line(passage: Json) -> str:
    """`tariffs/season-tickets.md › Refunds (p. 3)`."""
    heading = " › ".join(passage.get("heading") or ())
    page = f" (p. {passage['page']})" if passage.get("page") else ""
    return str(passage["source"]) + (f" › {heading}" if heading else "") + page


def beginning(text: str) -> str:
    """The first words of a passage on one line, at most some 220 characters of them."""
    line = " ".join(text.split())
    return line if len(line) <= BEGINNING else line[:BEGINNING].rsplit(" ", 1)[0] + " …"


def _show_timings(timings: Json, console: Console) -> None:
    console.print(waterfall(StageTiming.read(timings), console.width))
    console.print(kept(timings), style="dim", highlight=False)


def show_degraded(degraded: list[Json], console: Console) -> None:
    """A line for each thing that was given up."""
    for given_up in degraded:
        detail = f": {given_up['detail']}" if given_up.get("detail") else ""
        line = f"  given up: {given_up['stage']} ({given_up['reason']}{detail})"
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)
