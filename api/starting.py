"""Before the first request: collections are asked, so that all that is made on first use is made, and the heap settles.

What a first request would otherwise wait for: buffers of each thread, ONNX Runtime's memory for each shape, pages that
no process has mapped yet, stemmers, routes and serialisers. Requests go through the app from inside the door, so they
are neither counted nor logged.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message

from api.leaving import Leaving
from api.visits import Visit
from pipeline.passages import Caller

ROUTE = "/v1/retrieve"
RERANK = {"budget_ms": 50}  # long enough for every shape that a run may have, and short enough for many questions
AT_ONCE = 4  # so that each thread of a lane, and batches of several queries, have had their turn

log = logging.getLogger("fleetfoot.api")
Samples = Mapping[tuple[str, str], tuple[str, ...]]


async def warm_up(app: FastAPI, samples: Samples, seconds: float) -> int:
    """Asks each collection, (tenant, name), its sample queries: one after the other, then some at once, in other words.

    Returns how many were answered within `seconds`, in which all of it has to be done.
    """
    app.middleware_stack = app.middleware_stack or app.build_middleware_stack()
    inside = _inside(app.middleware_stack)
    ends = time.perf_counter() + seconds
    answered = 0
    for together in (1, AT_ONCE):
        for (tenant, collection), queries in samples.items():
            for some in _some(queries, together):
                left = ends - time.perf_counter()
                if left <= 0:
                    return answered
                statuses = await asyncio.gather(*(_ask(app, inside, tenant, collection, each, left) for each in some))
                answered += sum(status == 200 for status in statuses)
    return answered


def settle() -> None:
    """Leaves all that is there now out of garbage collection, and lets a good deal be made before it looks again.

    A request makes thousands of short-lived objects and no cycles to speak of. With the usual thresholds each one pays
    for a look at the young, and now and then one for a look at everything that was ever imported: measured with 8
    callers, 14.7 ms of CPU a request against 13.0, and a p99 of 296 ms against 156. A generation that is opened later
    adds a hundred objects and goes by its reference count, so once is enough.

    (A switch interval of 1 ms was tried beside it: as late a loop, and 7 % more CPU.)
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def allow_open_files() -> int:
    """Raises the soft limit of open files as far as a process may by itself, and returns it.

    A mapped segment keeps some 13 descriptors, a collection has up to nine segments, and a stream has a connection; the
    usual soft limit of 1,024 is kept low for programs that use `select`, which nothing here does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS names a limit that it does not grant
        return soft
    return hard


def told(facts: Mapping[str, object]) -> str:
    """The start-up line: what was opened, what the native pools were told before they were imported, and threads."""
    pools = {name: os.environ[name] for name in sorted(os.environ) if name.endswith(("_NUM_THREADS", "_PARALLELISM"))}
    tasks = Path("/proc/self/task")
    threads = {"threads": len(list(tasks.iterdir()))} if tasks.is_dir() else {}
    return json.dumps({"started": {**facts, "pools": pools, **threads}})


def _some(queries: Iterable[str], together: int) -> Iterator[list[str]]:
    """Alone as they are; `together` so many of them, each with the words of the next, as equal ones are remembered."""
    found = list(queries)
    if together > 1:
        found = [f"{one} {other}" for one, other in zip(found, found[1:] + found[:1], strict=True)]
    return (found[at : at + together] for at in range(0, len(found), together))


def _inside(app: ASGIApp) -> ASGIApp:
    """What is behind the door."""
    while not isinstance(app, Leaving):
        app = app.app  # type: ignore[attr-defined]  # every middleware of ours and of Starlette's has it
    return app


async def _ask(app: FastAPI, inside: ASGIApp, tenant: str, collection: str, query: str, seconds: float) -> int:
    asked = {"query": query, "collection": collection, "deadline_ms": max(seconds * 1000, 1), "rerank": RERANK}
    body = json.dumps(asked).encode()
    visit = Visit("warm-up", time.perf_counter(), "POST", ROUTE, Caller(tenant), known=True)
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": ROUTE,
        "raw_path": ROUTE.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
        "client": None,
        "server": None,
        "state": {"visit": visit},
        "app": app,
    }
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await inside(scope, receive, send)
    if statuses != [200]:
        log.debug("a warm-up query to %s of tenant %s was answered with %s", collection, tenant, statuses)
    return statuses[0]
