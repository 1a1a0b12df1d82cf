"""Puts the door together: the routes, what surrounds them, and nothing that lives longer than the app."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from api import (
    chat,
    chunking,
    document_passages,
    explaining,
    failed_csv,
    generations,
    health,
    holdings,
    jobs,
    offers,
    refreshing,
    retrieval,
    trying,
    uploads,
)
from api.bodies import schemas
from api.callers import Callers
from api.conversations import DEFAULT_PROFILE, ChatIn
from api.door import Door
from api.errors import on_fleetfoot_error, on_http_exception, on_invalid_request
from api.events import StreamOptions
from api.leaving import Leaving
from api.limits import Limits
from api.metrics import Metrics
from api.offers import OffersIn
from api.retrieval import RetrieveIn
from api.service import Behind, Previews, Stages
from api.terms import TermsOptions
from api.uploads import DocumentsIn
from pipeline.errors import FleetfootError
from pipeline.health import Figure
from pipeline.load import Load, LoadOptions
from pipeline.profile import Profile

DESCRIPTION = """\
Retrieval for language-model applications that keeps its deadlines. Every request may carry `deadline_ms` (or the header
`X-Request-Deadline-Ms`); what was given up to be in time stands in `degraded`, where the time went in `timings` and in
the header `Server-Timing`. Errors have OpenAI's envelope, a stable `code`, and say what to do.
"""

# These read their body themselves, so FastAPI has nothing to solve for them: straight to the endpoint they save a tenth
# of what a short request costs. They stay in their routers as well, which is where OpenAPI is told of them.
ASKED_MOST = (("/v1/retrieve", retrieval.retrieve), ("/v1/chat/completions", chat.chat))


class Straight(Route):
    """A route that FastAPI does nothing for; it says which one it is, as FastAPI's own do, for log and metrics."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        await super().handle(scope, receive, send)


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """Everything about the door that can be set; `keys_file` None lets everybody of this machine in."""

    limits: Limits = field(default_factory=Limits)
    streams: StreamOptions = field(default_factory=StreamOptions)
    keys_file: Path | None = None
    version: str = "0"
    load: LoadOptions = field(default_factory=LoadOptions)
    terms: TermsOptions = field(default_factory=TermsOptions)


def create_app(
    stages: Stages,
    options: DoorOptions,
    metrics: Metrics | None = None,
    *,
    callers: Callers | None = None,
    lag: Callable[[], float] = float,
    previews: Previews | None = None,
) -> FastAPI:
    """The HTTP app over opened stages. Raises Misconfigured for a keys file that cannot be used.

    `callers` are those of the keys file where somebody has read it already; `lag` is the event loop's, in seconds.
    Without `previews` no documents are read for a dry run.
    FastAPI's /docs page loads its parts from elsewhere, so it is left out; /openapi.json has all that it shows.
    """
    callers = callers or Callers.open(options.keys_file)
    app = FastAPI(
        title="fleetfoot", version=options.version, description=DESCRIPTION, docs_url=None, redoc_url=None,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"}, redirect_slashes=False,
    )  # fmt: skip
    metrics = metrics or Metrics()
    load = Load(options.load, stages.lines, _usual(stages), reranks=stages.reranks, lag=lag)
    metrics.show_all(load.figures(), load.tallies())
    metrics.show(Figure("tasks", "Tasks of the event loop, two of them the one that asks.", _tasks))
    behind = Behind(stages, options.limits, options.streams, metrics, load, asyncio.Event(), options.terms, previews)
    app.state.callers = callers
    app.state.behind = behind
    app.add_middleware(Leaving)
    app.add_middleware(Door, callers=callers, behind=behind)
    app.add_exception_handler(FleetfootError, on_fleetfoot_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_exception)
    for room in (
        retrieval,
        chat,
        health,
        uploads,
        trying,
        offers,
        jobs,
        failed_csv,
        holdings,
        generations,
        document_passages,
        refreshing,
        chunking,
        explaining,
    ):  # looked through in this order
        app.include_router(room.router)
    app.router.routes[:0] = [Straight(path, endpoint, methods=["POST"]) for path, endpoint in ASKED_MOST]
    app.openapi = lambda: _documented(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _tasks() -> float:
    return float(len(asyncio.all_tasks()))


def _usual(stages: Stages) -> Profile:
    """The profile of a request that names none; of a service without one the first."""
    return stages.profiles.get(DEFAULT_PROFILE) or next(iter(stages.profiles.values()), Profile())


def _documented(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the shapes of bodies that FastAPI does not read itself."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            license_info=app.license_info,
        )
        schema["components"]["schemas"].update(schemas(ChatIn, DocumentsIn, OffersIn, RetrieveIn))
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{}, {"key": []}]
        app.openapi_schema = schema
    return app.openapi_schema
