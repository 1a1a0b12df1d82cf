"""`fleetfoot ingest --dry-run`: how documents would be read and cut, and what is there twice. Nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from fleetfoot.client import Client, Json, Refused
from fleetfoot.finding import Named, batches, files_below
from pipeline.errors import InvalidInput

TOO_LARGE = 413
LATE = "out_of_time"
EXCERPT = 300  # characters of a text, and of a passage, unless all is asked for


@dataclass(frozen=True, slots=True)
class Tried:
    """What the service told of each document, as it came; with `full` all of the text."""

    documents: tuple[Json, ...]
    full: bool = False

    @property
    def failed(self) -> bool:
        """Whether one of them cannot be read."""
        return any(document["error"] is not None for document in self.documents)

    def json(self) -> Json:
        """For `--json`."""
        return {"documents": list(self.documents)}


async def tried(client: Client, collection: str, paths: Sequence[Path], *, full: bool) -> Tried:
    """Asks for the files in several requests. Documents are compared with the collection, and within a request."""
    asked = f"collection={quote(collection, safe='')}&full={str(full).lower()}"
    documents: list[Json] = []
    for batch in batches(files_below(paths)):
        documents += await _tried(client, batch, asked)
    return Tried(tuple(documents), full)


def show_tried(found: Tried, console: Console) -> None:
    """For people: what each document would be, its passages, and at the end how many there are."""
    for document in found.documents:
        console.print(Rule(Text(document["name"]), align="left", style="dim"))
        if document["error"] is not None:
            console.print(Text.assemble(("cannot be read", "red"), f": {document['error']['message']}"), soft_wrap=True)
        else:
            _show(document, console, full=found.full)
        for each in document["duplicates"]:
            console.print(Text(_duplicate(each), style="yellow"), soft_wrap=True)
    read = [document for document in found.documents if document["error"] is None]
    chunks, tokens = (sum(document[name] for document in read) for name in ("chunks_total", "tokens"))
    bad = len(found.documents) - len(read)
    console.print(Rule(style="dim"))
    counted = f"{len(found.documents)} documents, {chunks} passages, {tokens} tokens; {bad} cannot be read."
    console.print(f"{counted} Nothing was kept.", highlight=False)


def _show(document: Json, console: Console, *, full: bool) -> None:
    language = document["language"] or "language unknown"
    facts = [document["media_type"], language, f"{document['characters']} characters", f"{document['tokens']} tokens"]
    if document["unchanged"]:
        facts.append("there already, just so")
    console.print(Text(f"{document['title']}", style="bold"), soft_wrap=True)
    console.print(Text(", ".join(facts), style="dim"), soft_wrap=True)
    for warning in document["warnings"]:
        console.print(Text(warning, style="yellow"), soft_wrap=True)
    console.print(Text(_excerpt(document["text"], full=full)), soft_wrap=True)
    for chunk in document["chunks"]:
        console.print(_line(chunk), soft_wrap=True)
        console.print(Text(_excerpt(chunk["text"], full=full), style="dim"), soft_wrap=True)
    if len(document["chunks"]) < document["chunks_total"]:
        left = document["chunks_total"] - len(document["chunks"])
        console.print(Text(f"… and {left} more passages: --full shows them", style="dim"), soft_wrap=True)


def _line(chunk: Json) -> Text:
    place = " > ".join(chunk["heading"])
    page = "" if chunk["page"] is None else f", page {chunk['page']}"
    line = Text.assemble((f"[{chunk['ordinal']}]", "bold"), f" {chunk['tokens']} tokens{page}", f" {place}".rstrip())
    repeats = chunk["repeats"]
    if repeats is not None:
        how = "the same as" if repeats["similarity"] == 1 else f"{repeats['similarity']:.0%} like"
        line.append(f" {how} [{repeats['chunk']}] of {repeats['name']} ({repeats['where']})", "yellow")
    return line


def _duplicate(each: Json) -> str:
    where = "in the collection" if each["where"] == "collection" else "in this upload"
    if each["kind"] == "same":
        return f"the same bytes as '{each['name']}' {where}"
    return f"{each['share']:.0%} of it is in '{each['name']}' {where}"


def _excerpt(text: str, *, full: bool) -> str:
    return text if full or len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()} …"


async def _tried(client: Client, batch: list[Named], asked: str) -> list[Json]:
    """Where a request is too large, its documents go alone; one that is too large alone is told of as that.

    What the service had no time for is asked for again: of each request it looks at the first at least.
    """
    try:
        told: list[Json] = (await client.parse(batch, asked))["documents"]
        late = [place for place, each in enumerate(told) if each["error"] and each["error"]["code"] == LATE]
        if late and len(late) < len(batch):
            again = await _tried(client, [batch[place] for place in late], asked)
            told = [each for place, each in enumerate(told) if place not in late] + again
        return told
    except (Refused, InvalidInput) as refusal:
        if isinstance(refusal, Refused) and refusal.status != TOO_LARGE:
            raise
        if len(batch) > 1:
            half = len(batch) // 2
            return [*await _tried(client, batch[:half], asked), *await _tried(client, batch[half:], asked)]
        return [_refused(batch[0][0], str(refusal))]


def _refused(name: str, reason: str) -> Json:
    return {"name": name, "error": {"message": reason, "code": "too_large"}, "duplicates": []}
