"""`fleetfoot collections`: what a service holds, and what may be done with the generations of a collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetfoot.telling import HERE, AsJson, Key, Url, print_json, run, told

if TYPE_CHECKING:
    from fleetfoot.client import Client, Json

DAMAGED = 4  # exit status of `verify` when a file is not what was published

collections = typer.Typer(
    no_args_is_help=True, help="List collections; verify, pin, roll back, prune and compact their generations."
)
Name = Annotated[str, typer.Argument(help="The collection.")]
Number = Annotated[int, typer.Argument(min=1, help="A generation's number, as `show` lists them.")]


@collections.command("list")
@told
def list_collections(as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Show what every collection holds, and how much of it is dead weight."""
    found = _asked(url, key, lambda client: client.get("/v1/collections"))
    if as_json:
        print_json(found)
    else:
        show_collections(found, Console())


@collections.command("show")
@told
def show(collection: Name, as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Show the generations of a collection that are kept, the newest first."""
    found = _asked(url, key, lambda client: client.get(f"{_path(collection)}/generations"))
    if as_json:
        print_json(found)
    else:
        show_generations(found, Console())


@collections.command("verify")
@told
def verify(
    collection: Name,
    number: Annotated[int | None, typer.Argument(min=1, help="Of this generation only; else of all.")] = None,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Read every file of the kept generations, and compare it with its checksum. Exits 4 when one is damaged."""

    async def go(client: Client) -> Json:
        numbers = [number] if number is not None else await kept(client, collection)
        path = f"{_path(collection)}/generations"
        return {"data": [await client.post(f"{path}/{each}/verify", {}) for each in numbers]}

    found = _asked(url, key, go)
    if as_json:
        print_json(found)
    else:
        console = Console(highlight=False, soft_wrap=True, markup=False)
        for each in found["data"]:
            console.print(f"{collection}@{each['generation']}  {'sound' if each['ok'] else each['detail']}")
    if not all(each["ok"] for each in found["data"]):
        raise typer.Exit(DAMAGED)


@collections.command("pin")
@told
def pin(collection: Name, number: Number, as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Keep a generation, to roll back to, until it is unpinned."""
    path = f"{_path(collection)}/generations/{number}/pin"
    found = _asked(url, key, lambda client: client.post(path, {}))
    _tell(found, f"{collection}@{number} is kept until it is unpinned.", as_json=as_json)


@collections.command("unpin")
@told
def unpin(collection: Name, number: Number, as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Let a generation go as all others do."""
    path = f"{_path(collection)}/generations/{number}/pin"
    found = _asked(url, key, lambda client: client.delete(path))
    _tell(found, f"{collection}@{number} goes when nobody reads it any more.", as_json=as_json)


@collections.command("rollback")
@told
def roll_back(collection: Name, number: Number, as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Serve an earlier generation again, with the documents as they stood then."""
    found = _asked(url, key, lambda client: client.post(f"{_path(collection)}/rollback", {"generation": number}))
    text = (
        f"{collection}@{found['number']} serves what {collection}@{number} did: {found['documents']} documents. "
        f"`fleetfoot collections show {collection}` lists what it took back."
    )
    _tell(found, text, as_json=as_json)


@collections.command("prune")
@told
def prune(collection: Name, as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Forget superseded generations that nobody reads, without waiting until it is their time."""
    found = _asked(url, key, lambda client: client.post(f"{_path(collection)}/prune", {}))
    names = ", ".join(f"{collection}@{number}" for number in found["pruned"])
    text = f"{names} forgotten; the workers free their space." if names else "There is nothing to forget."
    _tell(found, text, as_json=as_json)


@collections.command("compact")
@told
def compact(collection: Name, as_json: AsJson = False, url: Url = HERE, key: Key = None) -> None:
    """Ask for a new base without anything dead in it; the workers make it while the collection serves."""
    found = _asked(url, key, lambda client: client.post(f"{_path(collection)}/compact", {}))
    text = (
        f"{collection}@{found['number']} will be compacted: {found['segments']} segments, "
        f"{found['dead_share']:.0%} of its passages dead."
    )
    _tell(found, text, as_json=as_json)


async def kept(client: Client, collection: str) -> list[int]:
    """The numbers of the kept generations, the newest first."""
    found = await client.get(f"{_path(collection)}/generations")
    return [each["number"] for each in found["data"]]


def show_collections(found: Json, console: Console) -> None:
    """A row a collection."""
    if not found["data"]:
        console.print("There is no collection yet. Make one with `fleetfoot ingest -c NAME PATH`.")
        return
    table = _table("collection", "documents", "passages", "generation", "segments", "dead", "size")
    for each in found["data"]:
        table.add_row(
            Text(each["name"]),
            f"{each['documents']:,}",
            f"{each['passages']:,}",
            str(each["generation"] or "none yet"),
            str(each["segments"]),
            f"{each['dead_share']:.0%}",
            size(each["size_bytes"]),
        )
    console.print(table, soft_wrap=True)


def show_generations(found: Json, console: Console) -> None:
    """A row a generation."""
    if not found["data"]:
        console.print(f"Nothing of '{found['collection']}' is published yet.", markup=False)
        return
    table = _table("generation", "published", "documents", "passages", "segments", "dead", "size", "readers")
    table.add_column("")
    for each in found["data"]:
        table.add_row(
            f"{found['collection']}@{each['number']}",
            f"{datetime.fromtimestamp(each['published']).astimezone():%Y-%m-%d %H:%M:%S}",
            f"{each['documents']:,}",
            f"{each['passages']:,}",
            str(each["segments"]),
            f"{each['dead_share']:.0%}",
            size(each["size_bytes"]),
            str(each["readers"]),
            ", ".join(_remarks(each)),
        )
    console.print(table, soft_wrap=True)


def size(number: int | None) -> str:
    """Bytes as people read them."""
    if number is None:
        return "?"
    value, units = float(number), ["B", "KB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if value >= 10 or units[0] == "B" else f"{value:.1f} {units[0]}"


def _remarks(generation: Mapping[str, Any]) -> list[str]:
    remarks = ["serves"] if generation["current"] else []
    if generation["restores"] is not None:
        remarks.append(f"as {generation['restores']}")
    return remarks + [name for name in ("pinned", "withdrawn") if generation[name]]


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _path(collection: str) -> str:
    return f"/v1/collections/{quote(collection, safe='')}"


def _asked(url: str, key: str | None, ask: Callable[[Client], Awaitable[Json]]) -> Json:
    from fleetfoot.client import connect

    async def go() -> Json:
        async with connect(url, key) as client:
            return await ask(client)

    return run(go())


def _tell(found: Json, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        Console(highlight=False, soft_wrap=True, markup=False).print(text)
