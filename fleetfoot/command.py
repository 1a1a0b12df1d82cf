"""The command. Each subcommand imports what it needs when it runs: `--help` stays quick, a worker stays light.

(The file is longer than a module should be: it is the list of subcommands and their options, and nothing else.)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fleetfoot.benching import bench
from fleetfoot.folder_command import sync
from fleetfoot.generations import collections
from fleetfoot.narrowing import Narrowed, filter_of
from fleetfoot.setting_up import keys, models
from fleetfoot.telling import HERE, AsJson, Collection, Deadline, Key, TopK, Url, print_json, run, told

if TYPE_CHECKING:
    from fleetfoot.ingesting import Ingested

FAILED_DOCUMENTS = 3  # exit status of `ingest` and `refresh` when some documents failed

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Answers from your documents, and is quick about it.",
)
app.add_typer(collections, name="collections")
app.add_typer(models, name="models")
app.add_typer(keys, name="keys")
app.command()(bench)
app.command()(sync)


@app.command()
@told
def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the answer instead of staying up.")] = False,
    llm: Annotated[bool, typer.Option("--llm", help="Answer with a small real model (the llm extra).")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where the API listens; when it is in use, or 0, a free one.")
    ] = 8080,
    data: Annotated[Path | None, typer.Option(help="Where models and indexes are kept.")] = None,
) -> None:
    """Start everything, ingest the sample handbook, ask it a question, and stay up until Ctrl-C."""
    from fleetfoot.demo import run as show

    show(once=once, llm=llm, port=port, data=data, console=Console(highlight=False))


@app.command()
@told
def serve() -> None:
    """Run the HTTP API in this process. Settings come from FLEETFOOT_ variables (README.md)."""
    from api.running import run as serve_until_asked_to_end

    serve_until_asked_to_end()


@app.command()
@told
def work() -> None:
    """Run the workers that parse, encode and publish. Settings come from FLEETFOOT_ variables."""
    from workers.supervising import work as work_until_asked_to_end

    work_until_asked_to_end()


@app.command()
@told
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.")],
    collection: Collection = "default",
    wait: Annotated[bool, typer.Option(help="Wait until every document is searchable or has failed.")] = True,
    again: Annotated[bool, typer.Option("--again", help="Send also what is there already just so.")] = False,
    webhook: Annotated[str | None, typer.Option(help="A URL that is told of the end of each job.")] = None,
    access: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="Only keys that carry it find these documents. Repeat it for several."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how they would be read and cut.")] = False,
    full: Annotated[bool, typer.Option("--full", help="With --dry-run: the whole text, however long.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="Print a JSON object on a line for each step.")] = False,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Send documents, and show how far they are. Interrupted, it goes on where it was when it is called again.

    Exit status: 0 when all of it is searchable (with --no-wait: accepted), 3 when some documents failed, 1 when the
    service could not be reached or refused, 2 for options that cannot be, 130 after Ctrl-C: what was accepted goes on.
    """
    from fleetfoot.client import connect
    from fleetfoot.ingesting import ingest as send

    console = Console(stderr=as_json or lines, quiet=as_json or lines)
    if dry_run:
        _try(paths, collection, Console(), url=url, key=key, full=full, as_json=as_json)
        return

    async def go() -> Ingested:
        async with connect(url, key) as client:
            return await send(
                client,
                collection,
                paths,
                console,
                wait=wait,
                again=again,
                webhook=webhook,
                access=access or (),
                lines=lines,
            )

    _tell(run(go()), console, as_json=as_json, said=lines)


@app.command()
@told
def refresh(
    collection: Collection = "default",
    wait: Annotated[bool, typer.Option(help="Wait until the new generation can be searched.")] = True,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Make a collection anew from what is kept of it: after a change of chunker or embedder, or damage."""
    from fleetfoot.client import connect
    from fleetfoot.ingesting import refresh as renew

    console = Console(stderr=as_json, quiet=as_json)

    async def go() -> Ingested:
        async with connect(url, key) as client:
            return await renew(client, collection, console, wait=wait)

    _tell(run(go()), console, as_json=as_json)


@app.command()
@told
def jobs(
    job: Annotated[str | None, typer.Argument(help="The id of one job; without it the latest are listed.")] = None,
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Of this collection only.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 20,
    again: Annotated[bool, typer.Option("--retry", help="Try again what failed in it, and wait for the end.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop what is not published yet.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Print all that failed in it, as CSV.")] = False,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Show what was sent and how far it is, or one job with the reasons of what failed."""
    from fleetfoot.client import connect
    from fleetfoot.jobs import cancelled, failed_of, latest_jobs, show_job, show_jobs

    if (again or cancel or failed) and job is None:
        raise typer.BadParameter("Name the job: --retry, --cancel and --failed are about one.")
    if again and job:
        _retry(job, url=url, key=key, as_json=as_json)
        return

    async def go() -> None:
        async with connect(url, key) as client:
            if failed and job:
                sys.stdout.write(await failed_of(client, job))
                return
            if job:
                found = await (cancelled(client, job) if cancel else client.job(job))
            else:
                found = await latest_jobs(client, collection, limit)
        if as_json:
            print_json(found)
        elif job:
            show_job(found, Console())
        else:
            show_jobs(found, Console())

    run(go())


@app.command()
@told
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    collection: Collection = "default",
    filters: Narrowed = None,
    top_k: TopK = None,
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
            found = await look(
                client, collection, query, top_k=top_k, deadline_ms=deadline_ms, filters=filter_of(filters)
            )
        if as_json:
            print_json(found)
        else:
            show_passages(found, Console())

    run(go())


@app.command()
@told
def explain(
    query: Annotated[str, typer.Argument(help="What was looked for.")],
    document: Annotated[str, typer.Argument(help="The document's id, or its name.")],
    collection: Collection = "default",
    top_k: TopK = None,
    filters: Narrowed = None,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Tell why a query finds a document: its rank and score in each leg, and what kept it out."""
    from fleetfoot.client import connect
    from fleetfoot.explaining import explain as look
    from fleetfoot.explaining import show_explanation

    async def go() -> None:
        async with connect(url, key) as client:
            found = await look(client, collection, query, document, top_k=top_k, filters=filter_of(filters))
        if as_json:
            print_json(found)
        else:
            show_explanation(found, Console())

    run(go())


@app.command()
@told
def chunking(
    collection: Annotated[str, typer.Argument(help="The collection; one that is not there yet is made.")],
    chunker: Annotated[
        str | None, typer.Option(help="tokens, sentences, headings or whole; 'default' for the workers' settings.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="The longest passage.")] = None,
    overlap: Annotated[int | None, typer.Option(help="Tokens of it that repeat the one before.")] = None,
    minimum: Annotated[int | None, typer.Option(help="A section with fewer tokens joins its neighbour.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the new cut can be searched.")] = True,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Show how a collection is cut into passages, or choose it and have its documents cut anew."""
    from fleetfoot.chunking import choose_chunking, chunking_of, cut, show_chunking
    from fleetfoot.client import connect

    console = Console(stderr=as_json, quiet=as_json)

    async def go() -> None:
        async with connect(url, key) as client:
            if chunker is None and tokens is overlap is minimum is None:
                found = await chunking_of(client, collection)
            else:
                found = await choose_chunking(
                    client, collection, chunker, tokens=tokens, overlap=overlap, minimum=minimum
                )
                found = await cut(client, collection, found, console) if wait else found
        if as_json:
            print_json(found)
        else:
            show_chunking(collection, found, console)

    run(go())


@app.command()
@told
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    collection: Annotated[
        str, typer.Option("--collection", "-c", help="A collection, or collection@profile.")
    ] = "default",
    filters: Narrowed = None,
    top_k: TopK = None,
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
            asked = await stream(
                client,
                collection,
                question,
                console,
                top_k=top_k,
                deadline_ms=deadline_ms,
                filters=filter_of(filters),
            )
        if as_json:
            print_json({"answer": asked.text, **asked.extension})
        else:
            show_answered(asked, console)

    run(go())


def _retry(job: str, *, url: str, key: str | None, as_json: bool) -> None:
    from fleetfoot.client import connect
    from fleetfoot.ingesting import retry

    console = Console(stderr=as_json, quiet=as_json)

    async def go() -> Ingested:
        async with connect(url, key) as client:
            return await retry(client, job, console, wait=True)

    _tell(run(go()), console, as_json=as_json)


def _try(
    paths: list[Path], collection: str, console: Console, *, url: str, key: str | None, full: bool, as_json: bool
) -> None:
    """Shows how documents would be read; exits 3 when some of them cannot be."""
    from fleetfoot.client import connect
    from fleetfoot.trying import Tried, show_tried, tried

    async def go() -> Tried:
        async with connect(url, key) as client:
            return await tried(client, collection, paths, full=full)

    found = run(go())
    if as_json:
        print_json(found.json())
    else:
        show_tried(found, console)
    if found.failed:
        raise typer.Exit(FAILED_DOCUMENTS)


def _tell(ingested: Ingested, console: Console, *, as_json: bool, said: bool = False) -> None:
    """What became of the documents, unless that was said already; exits 3 when some of them failed."""
    from fleetfoot.ingesting import show

    if said:
        pass
    elif as_json:
        print_json(ingested.json())
    else:
        show(ingested, console)
    if ingested.failed:
        raise typer.Exit(FAILED_DOCUMENTS)
