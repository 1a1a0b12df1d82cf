"""What all subcommands share: their options, how they tell an error, and how they print for programs."""

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
from rich.text import Text

from pipeline.errors import FleetfootError

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPTED = 130  # as a shell says it: 128 and the number of SIGINT

HERE = "http://127.0.0.1:8080"
Url = Annotated[str, typer.Option("--url", envvar="FLEETFOOT_URL", help="Where the service listens.")]
Key = Annotated[str | None, typer.Option("--key", envvar="FLEETFOOT_KEY", help="An API key, where keys are in use.")]
Collection = Annotated[str, typer.Option("--collection", "-c", help="The collection to use.")]
Deadline = Annotated[
    float | None, typer.Option("--deadline-ms", help="Milliseconds; when they are over, less is given, not later.")
]
TopK = Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Data = Annotated[Path, typer.Option("--data", envvar="FLEETFOOT_DATA_DIR", help="The data folder.")]


def told(command: Callable[P, T]) -> Callable[P, T]:
    """Turns what somebody can do something about into one sentence and exit status 1, without a traceback."""

    @wraps(command)
    def tell(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except FleetfootError as error:
            show_error(error)
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return tell


def show_error(error: FleetfootError) -> None:
    """Its one sentence, on standard error."""
    sentence = Text.assemble(("fleetfoot: ", "red"), str(error))  # as Text, since `[docs]` is no markup here
    Console(stderr=True).print(sentence, highlight=False, soft_wrap=True)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs what a subcommand waits for and returns its result; Ctrl-C cancels it."""
    return asyncio.run(work)


def print_json(value: object) -> None:
    """The one object that `--json` promises, on standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")
