"""The command. Each subcommand imports what it needs when it runs: `--help` stays quick, a worker stays light."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console

from pipeline.errors import FleetfootError, InvalidInput
from pipeline.passages import Scope

P = ParamSpec("P")
T = TypeVar("T")

FAILED_DOCUMENTS = 3  # exit status of `ingest --wait` when some documents failed

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Answers from your documents, and is quick about it.",
)
models = typer.Typer(no_args_is_help=True, help="Fetch and list the models that encode and rerank.")
keys = typer.Typer(no_args_is_help=True, help="Make API keys.")
app.add_typer(models, name="models")
app.add_typer(keys, name="keys")

Url = Annotated[str, typer.Option("--url", envvar="FLEETFOOT_URL", help="Where the service listens.")]
Key = Annotated[str | None, typer.Option("--key", envvar="FLEETFOOT_KEY", help="An API key, where keys are in use.")]
Collection = Annotated[str, typer.Option("--collection", "-c", help="The collection to use.")]
Deadline = Annotated[
    float | None, typer.Option("--deadline-ms", help="Milliseconds; when they are over, less is given, not later.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Data = Annotated[Path, typer.Option("--data", envvar="FLEETFOOT_DATA_DIR", help="The data folder.")]
HERE = "http://127.0.0.1:8080"


def told(command: Callable[P, T]) -> Callable[P, T]:
    """Turns what somebody can do something about into one sentence and exit status 1, without a traceback."""

    @wraps(command)
    def tell(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except FleetfootError as error:
            Console(stderr=True).print(f"[red]fleetfoot:[/red] {error}", highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            raise typer.Exit(130) from None

    return tell


@app.command()
@told
def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the answer instead of staying up.")] = False,
    llm: Annotated[bool, typer.Option("--llm", help="Answer with a small real model (the llm extra).")] = False,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Where the API listens; a free port is taken when it is in use.")
    ] = 8080,
    data: Annotated[Path | None, typer.Option(help="Where models and indexes are kept.")] = None,
) -> None:
    """Start everything, ingest the sample handbook, ask it a question, and stay up until Ctrl-C."""
    from fleetfoot.demo import run

    run(once=once, llm=llm, port=port, data=data, console=Console(highlight=False))


@app.command()
@told
def serve() -> None:
    """Run the HTTP API in this process. Settings come from FLEETFOOT_ variables (README.md)."""
    from api.running import run

    run()


@app.command()
@told
def work() -> None:
    """Run the workers that parse, encode and publish. Settings come from FLEETFOOT_ variables."""
    from workers.supervising import work as run

    run()


@app.command()
@told
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.")],
    collection: Collection = "default",
    wait: Annotated[bool, typer.Option(help="Wait until every document is searchable or has failed.")] = True,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Send documents. Exits 3 when some of them failed."""
    from fleetfoot.client import connect
    from fleetfoot.ingesting import ingest as send
    from fleetfoot.ingesting import show

    console = Console(stderr=as_json, quiet=as_json)

    async def go() -> None:
        async with connect(url, key) as client:
            ingested = await send(client, collection, paths, console, wait=wait)
        if as_json:
            _print_json(ingested.json())
        else:
            show(ingested, console)
        if ingested.failed:
            raise typer.Exit(FAILED_DOCUMENTS)

    _run(go())


@app.command()
@told
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    collection: Collection = "default",
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages at most.")] = None,
    deadline_ms: Deadline = None,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Show the passages for a query, where each leg ranked them, and where the time went."""
    from fleetfoot.asking import search as look
    from fleetfoot.asking import show_passages
    from fleetfoot.client import connect

    async def go() -> None:
        async with connect(url, key) as client:
            found = await look(client, collection, query, top_k=top_k, deadline_ms=deadline_ms)
        if as_json:
            _print_json(found)
        else:
            show_passages(found, Console())

    _run(go())


@app.command()
@told
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    collection: Annotated[
        str, typer.Option("--collection", "-c", help="A collection, or collection@profile.")
    ] = "default",
    deadline_ms: Deadline = None,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Stream an answer with its sources, and show where the time went."""
    from fleetfoot.asking import ask as stream
    from fleetfoot.asking import show_answered
    from fleetfoot.client import connect

    console = Console(quiet=as_json)

    async def go() -> None:
        async with connect(url, key) as client:
            asked = await stream(client, collection, question, console, deadline_ms=deadline_ms)
        if as_json:
            _print_json({"answer": asked.text, **asked.extension})
        else:
            show_answered(asked, console)

    _run(go())


@models.command("add")
@told
def add_model(
    name: Annotated[str, typer.Argument(help="'default', a folder laid out like a hub repository, or a hub's name.")],
    data: Data = Path(".data"),
) -> None:
    """Fetch or copy a model and check that it works. Doing it again is harmless."""
    from retrieve.model_library import ModelLibrary

    added = ModelLibrary(data / "models").add(name)
    Console().print(f"{added.name} is ready: {added.fingerprint} in {added.folder}", soft_wrap=True, highlight=False)


@models.command("list")
@told
def list_models(data: Data = Path(".data"), as_json: AsJson = False) -> None:
    """Show the models that were added."""
    from retrieve.model_library import ModelLibrary

    found = ModelLibrary(data / "models").models()
    if as_json:
        _print_json([{"name": each.name, "kind": each.kind, "fingerprint": each.fingerprint} for each in found])
        return
    for each in found:
        Console().print(f"{each.name}  {each.kind}  {each.fingerprint}", highlight=False)
    if not found:
        Console().print(f"No model was added below {data}. Add one with `fleetfoot models add default`.")


@keys.command("new")
@told
def new_key(
    tenant: Annotated[str, typer.Option(help="Whose documents it opens.")] = "default",
    scopes: Annotated[str, typer.Option(help="Of read, ingest and admin, with commas.")] = "read",
) -> None:
    """Make a key, shown once, and the table that lets it in."""
    from api.callers import new_key as make

    named = [scope.strip() for scope in scopes.split(",")]
    for unknown in set(named) - set(Scope):
        raise InvalidInput(f"There is no scope '{unknown}'. Known: {', '.join(Scope)}.", field="--scopes")
    granted = ", ".join(f'"{scope}"' for scope in named)
    made = make()
    notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    notes.print("The key, shown once; clients send it as `Authorization: Bearer KEY`:")
    typer.echo(made.key)
    notes.print("\nAppend this to the file that FLEETFOOT_KEYS_FILE names:\n")
    notes.print(f'[[keys]]\nhash = "{made.hash}"\ntenant = {json.dumps(tenant)}\nscopes = [{granted}]')


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
