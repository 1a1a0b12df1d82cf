"""`fleetfoot explain`: why a query finds a document, or what kept it out, passage by passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fleetfoot.asking import beginning, show_degraded
from fleetfoot.client import Client, Json

BEST = 3  # passages that are shown with their text and terms; the others have a row in the table
MOST = 20  # rows of it
TERMS = 8  # of the query, those that add most


async def explain(
    client: Client, collection: str, query: str, document: str, *, top_k: int | None = None, filters: Json | None = None
) -> Json:
    """The answer of /v1/collections/…/explain, as it came."""
    body = {"query": query, "document": document, "top_k": top_k, "filters": filters}
    return await client.post(f"/v1/collections/{quote(collection, safe='')}/explain", body)


def show_explanation(told: Json, console: Console) -> None:
    """The document and its verdict, a row a passage, and the best ones' texts and terms below."""
    document = told["document"]
    name = escape(str(document["name"])) + (f" [dim]({document['id']})[/dim]" if document["id"] else "")
    console.print(f"[bold]{name}[/bold]", highlight=False, soft_wrap=True)
    _fact("in the catalog", _standing(document), console)
    _fact("searched", told["generation"], console)
    _fact("verdict", f"{told['verdict']}: {told['said']}", console)
    passages = told["passages"]
    if passages:
        console.print()
        console.print(_table(passages[:MOST]))
        if len(passages) > MOST:
            console.print(f"… and {len(passages) - MOST} more passages", style="dim")
    for passage in passages[:BEST]:
        console.print()
        _show_passage(passage, console)
    show_degraded(told["degraded"], console)


def _fact(name: str, text: str, console: Console) -> None:
    console.print(Text.assemble((f"{name:>15}", "dim"), f"  {text}"), highlight=False, soft_wrap=True)


def _standing(document: Json) -> str:
    state = str(document["state"]).replace("_", " ")
    if document["state"] == "published":
        changing = ", about to be replaced or removed" if document["changing"] else ""
        return f"published, {document['passages']} passages{changing}"
    return f"{state}: {document['reason']}" if document["reason"] else state


def _table(passages: Sequence[Json]) -> Table:
    """Exact ranks over all that may be found, and behind a slash what the search gave where that differs."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("passage", no_wrap=True)
    legs = list(dict.fromkeys(leg for passage in passages for leg in passage["legs"]))
    for leg in legs:
        table.add_column(leg, justify="right", no_wrap=True)
        table.add_column("score", justify="right", no_wrap=True)
    for name in ("fused", "rerank", "final", "source"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for passage in passages:
        cells = [cell for leg in legs for cell in _cells(passage["legs"].get(leg))]
        fused = passage["fused"]
        table.add_row(
            Text(str(passage["id"]).rpartition(":")[2]),
            *cells,
            "–" if fused is None else f"{fused['rank']}",
            "–" if passage["rerank_score"] is None else f"{passage['rerank_score']:.3f}",
            "–" if passage["final"] is None else f"{passage['final']}",
            "–" if passage["number"] is None else f"[{passage['number']}]",
            Text(passage["verdict"], "green" if passage["verdict"] == "packed" else "yellow"),
        )
    return table


def _cells(place: Json | None) -> tuple[str, str]:
    if place is None or place["rank"] is None:
        return "–", "–"
    served = place["served"]
    differs = "" if served in {None, place["rank"]} else f"/{served}"
    return f"{place['rank']}{differs} of {place['of']}", f"{place['score']:.3f}"


def _show_passage(passage: Json, console: Console) -> None:
    heading = " › ".join(passage["heading"])
    page = f" (p. {passage['page']})" if passage["page"] else ""
    line = Text.assemble((passage["id"], "bold"), f"  {heading}{page}" if heading or page else "")
    console.print(line, highlight=False, soft_wrap=True)
    console.print(Padding(Text(passage["said"], "yellow" if passage["number"] is None else "green"), (0, 0, 0, 3)))
    terms = _terms(passage["legs"])
    if terms:
        console.print(Padding(Text(terms, "dim"), (0, 0, 0, 3)))
    console.print(Padding(Text(beginning(passage["text"])), (0, 0, 0, 3)))


def _terms(legs: Mapping[str, Json]) -> str:
    """`lexical 9.31 = refund 6.20 + season 3.11`."""
    place = legs.get("lexical")
    if place is None or not place["terms"]:
        return ""
    terms = place["terms"]
    shown = " + ".join(f"{term['term']} {term['score']:.2f}" for term in terms[:TERMS])
    return f"lexical {place['score']:.2f} = {shown}" + (" + …" if len(terms) > TERMS else "")
