"""Is it alive, is it ready, how is it doing: what operators and their machines ask."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from api.service import enter
from pipeline.errors import FleetfootError
from pipeline.health import Check

router = APIRouter(tags=["health"])
failures = logging.getLogger("fleetfoot.failures")

PATIENCE = 3.0  # seconds for one check


class RootOut(BaseModel):
    """Who this is, and where to go on."""

    name: str = "fleetfoot"
    version: str
    generator: str
    profiles: list[str]
    facts: dict[str, str]
    links: dict[str, str]


class AliveOut(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"


class CheckOut(BaseModel):
    """One thing that should work; `detail` is the reason where it does not. Requests are answered without what is not
    `needed`."""

    ok: bool
    needed: bool
    detail: str


class ReadyOut(BaseModel):
    """Whether requests can be answered now, and what could not."""

    status: Literal["ready", "not_ready", "closing"]
    checks: dict[str, CheckOut]


@router.get("/", responses={200: {"model": RootOut}})
async def root(request: Request) -> Response:
    """Name, version, and links."""
    stages = enter(request).stages
    links = {
        "openapi": "/openapi.json",
        "models": "/v1/models",
        "collections": "/v1/collections",
        "retrieve": "/v1/retrieve",
        "chat": "/v1/chat/completions",
        "ready": "/readyz",
        "metrics": "/metrics",
    }
    body = RootOut(
        version=request.app.version,
        generator=stages.generator_name,
        profiles=sorted(stages.profiles),
        facts=dict(stages.facts),
        links=links,
    )
    return Response(body.model_dump_json().encode(), media_type="application/json")


@router.get("/healthz", responses={200: {"model": AliveOut}})
async def alive() -> Response:
    """Alive: the event loop turns."""
    return Response(AliveOut().model_dump_json().encode(), media_type="application/json")


@router.get("/readyz", responses={200: {"model": ReadyOut}, 503: {"model": ReadyOut}})
async def ready(request: Request) -> Response:
    """Ready: models, index, catalog, broker and model server, each with its reason. 503 when a needed one is not."""
    here = enter(request)
    names = list(here.stages.checks)
    results = await asyncio.gather(*(_checked(here.stages.checks[name]) for name in names))
    checks = dict(zip(names, results, strict=True))
    working = all(check.ok or not check.needed for check in checks.values())
    status: Literal["ready", "not_ready", "closing"] = "ready" if working else "not_ready"
    if here.behind.closing.is_set():
        status = "closing"
    body = ReadyOut(status=status, checks=checks)
    return Response(body.model_dump_json().encode(), 200 if status == "ready" else 503, media_type="application/json")


@router.get(
    "/metrics",
    responses={
        200: {"description": "Prometheus's exposition format.", "content": {"text/plain": {"example": "# HELP …"}}}
    },
)
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    return Response(enter(request).behind.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _checked(check: Check) -> CheckOut:
    def not_ok(detail: str) -> CheckOut:
        return CheckOut(ok=False, needed=check.needed, detail=detail)

    try:
        async with asyncio.timeout(PATIENCE):
            return CheckOut(ok=True, needed=check.needed, detail=await check.ask())
    except FleetfootError as error:
        return not_ok(str(error))
    except TimeoutError:
        return not_ok(f"It did not answer within {PATIENCE:g} s.")
    except Exception as error:  # noqa: BLE001  a door: one broken check must not hide the others
        failures.exception("a readiness check failed in a way that nobody foresaw")
        return not_ok(f"It failed with {type(error).__name__}; the log tells more.")
