"""`fleetfoot chunking`: how a collection is cut into passages, shown or chosen."""

from __future__ import annotations

import json
from urllib.parse import quote

from rich.console import Console

from fleetfoot.client import Client, Json
from pipeline.errors import UpstreamFailed

DEFAULT = "default"  # stands for what the workers' settings say
SIZES = ("tokens", "overlap", "minimum")


async def chunking_of(client: Client, collection: str) -> Json:
    """How it is cut, as the service tells it."""
    return await client.get(_address(collection))


async def choose_chunking(
    client: Client,
    collection: str,
    chunker: str | None,
    *,
    tokens: int | None = None,
    overlap: int | None = None,
    minimum: int | None = None,
) -> Json:
    """Chooses; in the answer `job` is the one that cuts the collection anew, if any."""
    named = None if chunker == DEFAULT else chunker
    body = {"chunker": named, "tokens": tokens, "overlap": overlap, "minimum": minimum}
    return await client.put(_address(collection), body)


async def cut(client: Client, collection: str, chosen: Json, console: Console) -> Json:
    """Waits until the new cut can be searched, and tells how the collection stands then.

    Raises UpstreamFailed where the service ends before; the job goes on.
    """
    job = chosen["job"]
    if job is None:
        return chosen
    with console.status(f"{job['total']} documents are cut anew …"):
        async for name, data in client.events("GET", f"/v1/jobs/{job['id']}/events"):
            if name == "error":
                raise UpstreamFailed(json.loads(data)["error"]["message"])
            job = json.loads(data)
            if name == "done":
                return {**await chunking_of(client, collection), "job": job}
    raise UpstreamFailed(f"The service ended the stream. The work goes on; see `fleetfoot jobs {job['id']}`.")


def show_chunking(collection: str, told: Json, console: Console) -> None:
    """What was chosen, and what the generation that is searched was made by."""
    if told["chunker"] is None:
        chosen = "as the workers' settings say (FLEETFOOT_CHUNKER)"
    else:
        sizes = ", ".join(f"{name} {told[name]}" for name in SIZES if told[name] is not None)
        chosen = f"{told['chunker']}" + (f" ({sizes})" if sizes else "")
    console.print(f"{collection}: {chosen}", markup=False, highlight=False, soft_wrap=True)
    for made_by in filter(None, str(told["made_by"]).split("+")):
        console.print(f"  searched now: {made_by}", style="dim", markup=False, highlight=False, soft_wrap=True)


def _address(collection: str) -> str:
    return f"/v1/collections/{quote(collection, safe='')}/chunking"
