"""`fleetfoot models` and `fleetfoot keys`: what is done once, before or beside a running service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fleetfoot.telling import AsJson, Data, print_json, told
from pipeline.errors import InvalidInput
from pipeline.passages import Scope

models = typer.Typer(no_args_is_help=True, help="Fetch and list the models that encode and rerank.")
keys = typer.Typer(no_args_is_help=True, help="Make API keys.")


@models.command("add")
@told
def add_model(
    name: Annotated[str, typer.Argument(help="'default', a folder laid out like a hub repository, or a hub's name.")],
    data: Data = Path(".data"),
    as_json: AsJson = False,
) -> None:
    """Fetch or copy a model and check that it works. Doing it again is harmless."""
    from retrieve.model_library import ModelLibrary

    console = Console(stderr=as_json, quiet=as_json, highlight=False, soft_wrap=True, markup=False)
    with console.status(f"fetching and checking {name} …"):
        added = ModelLibrary(data / "models").add(name)
    if as_json:
        print_json({"name": added.name, "fingerprint": added.fingerprint, "folder": str(added.folder)})
    else:
        console.print(f"{added.name} is ready: {added.fingerprint} in {added.folder}")


@models.command("list")
@told
def list_models(data: Data = Path(".data"), as_json: AsJson = False) -> None:
    """Show the models that were added."""
    from retrieve.model_library import ModelLibrary

    found = ModelLibrary(data / "models").models()
    if as_json:
        print_json(
            {"models": [{"name": each.name, "kind": each.kind, "fingerprint": each.fingerprint} for each in found]}
        )
        return
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for each in found:
        console.print(f"{each.name}  {each.kind}  {each.fingerprint}")
    if not found:
        console.print(f"No model was added below {data}. Add one with `fleetfoot models add default`.")


@keys.command("new")
@told
def new_key(
    tenant: Annotated[str, typer.Option(help="Whose documents it opens.")] = "default",
    scopes: Annotated[str, typer.Option(help="Of read, ingest and admin, with commas.")] = "read",
    labels: Annotated[
        str, typer.Option(help="Access labels that it carries, with commas; without any it sees what carries none.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Make a key, shown once, and the table that lets it in."""
    from api.callers import new_key as make

    named = [scope.strip() for scope in scopes.split(",")]
    for unknown in set(named) - set(Scope):
        raise InvalidInput(f"There is no scope '{unknown}'. Known: {', '.join(Scope)}.", field="--scopes")
    granted = ", ".join(f'"{scope}"' for scope in named)
    made = make()
    table = f'[[keys]]\nhash = "{made.hash}"\ntenant = {json.dumps(tenant)}\nscopes = [{granted}]'
    carried = [label.strip() for label in labels.split(",") if label.strip()]
    if carried:
        table += f"\nlabels = {json.dumps(carried, ensure_ascii=False)}"
    if as_json:
        print_json({"key": made.key, "hash": made.hash, "table": table})
        return
    notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    notes.print("The key, shown once; clients send it as `Authorization: Bearer KEY`:")
    typer.echo(made.key)
    notes.print("\nAppend this to the file that FLEETFOOT_KEYS_FILE names:\n")
    notes.print(table)
