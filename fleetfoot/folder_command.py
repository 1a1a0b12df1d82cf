"""`fleetfoot sync`: a collection follows a folder, once or for as long as it is watched."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from fleetfoot.telling import HERE, AsJson, Collection, Key, Url, print_json, run, show_error, told

if TYPE_CHECKING:
    from fleetfoot.syncing import Plan, Synced, Syncing

FAILED_DOCUMENTS = 3
TOO_MANY_REMOVALS = 4
SHOWN = 20  # names that are shown of many


@told
def sync(
    folder: Annotated[Path, typer.Argument(help="The folder to follow.")],
    collection: Collection = "default",
    name: Annotated[
        str | None, typer.Option("--as", help="What the documents' names begin with. Default: the folder's name.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, as the folder changes, until Ctrl-C.")] = False,
    poll: Annotated[
        bool, typer.Option("--poll", help="With --watch: look every 2 s, for network folders that tell of no change.")
    ] = False,
    remove_at_most: Annotated[
        float, typer.Option(min=0, max=100, help="Percent of what came from the folder; beyond it, it stops and asks.")
    ] = 10.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove whatever is gone, without asking.")] = False,
    access: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="Only keys that carry it find these documents. Repeat it for several."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be sent and removed.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until every document is searchable or has failed.")] = True,
    as_json: AsJson = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    """Make a collection follow a folder: send what is new or changed there, remove what is gone.

    Only documents that came from this folder are ever removed. Exit status: 0 when the collection follows (with
    --no-wait: when all of it is accepted), 3 when documents failed or files cannot be read, 4 when more than
    --remove-at-most would be removed, 1 when the service could not be reached or refused, 2 for options that cannot be,
    130 after Ctrl-C. With --watch, --json prints an object on a line for each turn that did something.
    """
    from fleetfoot.client import connect
    from fleetfoot.folder_files import Folder
    from fleetfoot.keeping_step import changes_below, keep_in_step
    from fleetfoot.syncing import Syncing, SyncOptions, TooManyRemovals

    if watch and dry_run:
        raise typer.BadParameter("--dry-run looks once: leave --watch out.")
    if not folder.is_dir():
        raise typer.BadParameter(f"There is no folder '{folder}'.", param_hint="FOLDER")
    below = Folder(folder)
    options = SyncOptions(
        name=below.root.name if name is None else name,
        access=tuple(access or ()),
        remove_at_most=100.0 if yes else remove_at_most,
        wait=wait,
    )
    console = Console(stderr=as_json, quiet=as_json)
    asking = not as_json and sys.stdin.isatty()

    async def go() -> Synced | None:
        async with connect(url, key) as client:
            syncing = Syncing(client, collection, below, options, console)
            if dry_run:
                _show_plan(await syncing.plan(), console, as_json=as_json)
                return None
            if not watch:
                return await _turn(syncing, asking=asking)

            unreadable = dict[str, str]()

            async def turn() -> bool:
                nonlocal unreadable
                plan = await syncing.plan()
                if plan.anything or plan.listing.unreadable != unreadable:
                    _check(syncing, plan, asking=asking)
                    _tell(await syncing.carry_out(plan), console, as_json=as_json, watched=True)
                    unreadable = plan.listing.unreadable
                return bool(plan.listing.left)

            async with aclosing(changes_below(below, poll=poll)) as changes:
                await keep_in_step(turn, changes, _say)
            return None

    try:
        synced = run(go())
    except TooManyRemovals as error:
        show_error(error)
        raise typer.Exit(TOO_MANY_REMOVALS) from error
    if synced is not None:
        _tell(synced, console, as_json=as_json)
        if not synced.complete:
            raise typer.Exit(FAILED_DOCUMENTS)


async def _turn(syncing: Syncing, *, asking: bool) -> Synced:
    plan = await syncing.plan()
    _check(syncing, plan, asking=asking)
    return await syncing.carry_out(plan)


def _check(syncing: Syncing, plan: Plan, *, asking: bool) -> None:
    from fleetfoot.syncing import TooManyRemovals

    try:
        syncing.check(plan)
    except TooManyRemovals as error:
        if not asking:
            raise
        show_error(error)
        _show_names("would be removed", [name for name, _ in plan.remove], Console(stderr=True))
        if not typer.confirm("Remove them?", default=False, err=True):
            raise typer.Exit(TOO_MANY_REMOVALS) from error


def _show_plan(plan: Plan, console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json(plan.json())
        return
    _show_names("would be sent", [name for name, _ in plan.send], console)
    _show_names("would be removed", [name for name, _ in plan.remove], console)
    console.print(f"{len(plan.send)} to send, {len(plan.remove)} to remove, {plan.unchanged} unchanged")
    _show_noticed(plan.json(), console)


def _tell(synced: Synced, console: Console, *, as_json: bool, watched: bool = False) -> None:
    said = synced.json()
    if as_json and watched:
        sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    elif as_json:
        print_json(said)
    else:
        counts = {**synced.sent.counts}
        counts["unchanged"] = counts.get("unchanged", 0) + synced.unchanged
        parts = [f"{count} {state}" for state, count in sorted(counts.items()) if count]
        console.print(", ".join([*parts, f"{len(synced.removed)} removed"]))
        for name, reason in synced.failed:
            console.print(Text.assemble(("  failed ", "red"), f"{name}: {reason}"), soft_wrap=True)
        _show_noticed(said, console)


def _show_names(what: str, names: Sequence[str], console: Console) -> None:
    for name in names[:SHOWN]:
        console.print(Text(f"  {what}: {name}"), soft_wrap=True)
    if len(names) > SHOWN:
        console.print(f"  … and {len(names) - SHOWN} more")


def _show_noticed(noticed: Mapping[str, Any], console: Console) -> None:
    for path in noticed["left"]:
        console.print(Text(f"  still being written, left for later: {path}"), soft_wrap=True)
    for each in noticed["unreadable"]:
        console.print(Text.assemble(("  cannot be read ", "red"), f"{each['path']}: {each['reason']}"), soft_wrap=True)


def _say(sentence: str) -> None:
    Console(stderr=True).print(Text(f"fleetfoot: {sentence}"), highlight=False, soft_wrap=True)
