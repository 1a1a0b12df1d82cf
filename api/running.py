"""What `fleetfoot serve` runs: settings read, stages opened, the app served until it is asked to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvloop

from api.assembly import DoorOptions, create_app
from api.callers import Callers
from api.lag import Lag
from api.metrics import Metrics
from api.service import Previews
from api.serving import log_to_stderr, serve
from api.settings import Settings
from api.starting import allow_open_files, settle, told, warm_up
from assembly import (
    CachingOptions,
    RequestOptions,
    StorageOptions,
    UpstreamOptions,
    open_previewing,
    open_request_stages,
    own_version,
)
from pipeline.errors import Misconfigured
from pipeline.lane import Lane, LaneOptions

if TYPE_CHECKING:
    from retrieve.query_encoder import TextEncoder

log = logging.getLogger("fleetfoot.api")


def run(settings: Settings | None = None) -> None:
    """Serves in this process until SIGINT or SIGTERM. Raises Misconfigured before the first request, never later."""
    settings = settings or Settings.read()
    uvloop.run(serving(settings, request_options(settings), settings.door(own_version())))


def request_options(settings: Settings) -> RequestOptions:
    """What the settings say of a request's stages. Raises Misconfigured for settings that need each other."""
    if (settings.upstream_url is None) != (settings.upstream_model is None):
        raise Misconfigured(
            "FLEETFOOT_UPSTREAM_URL and FLEETFOOT_UPSTREAM_MODEL go together: the address of the model server, and the "
            "model as it lists it. Set both, or neither for answers that quote."
        )
    upstream = None
    if settings.upstream_url is not None and settings.upstream_model is not None:
        key = settings.upstream_api_key.get_secret_value() if settings.upstream_api_key else None
        upstream = UpstreamOptions(
            settings.upstream_url,
            settings.upstream_model,
            key,
            settings.upstream_connections,
            priorities=settings.upstream_priority,
        )
    return RequestOptions(
        storage=StorageOptions(settings.data_dir, settings.catalog_url),
        redis_url=settings.redis_url,
        embedder=settings.embedder,
        reranker=settings.reranker,
        upstream=upstream,
        device=settings.device,
        fast_queries=settings.fast_queries,
        threads=settings.threads,
        line=settings.line,
        caching=CachingOptions(
            settings.cached_queries,
            settings.cached_retrievals,
            settings.cached_scores,
            single_flight=settings.single_flight,
            redis_url=settings.cache_redis_url,
            seconds=settings.cache_seconds,
        ),
        profiles=settings.every_profile(),
    )


async def serving(
    settings: Settings,
    options: RequestOptions,
    door: DoorOptions,
    *,
    around_encoder: Callable[[TextEncoder], TextEncoder] | None = None,
) -> None:
    """What `run` runs, with what a benchmark wants otherwise than the settings say; see `open_request_stages`."""
    log_to_stderr(logging.getLevelNamesMapping()[settings.log_level])
    allow_open_files()
    callers = Callers.open(door.keys_file)  # before the models: what is wrong in it is told at once
    async with open_request_stages(options, around_encoder=around_encoder) as stages:
        with _previews(settings) as previews:
            metrics = Metrics()
            for figure in stages.figures:
                metrics.show(figure)
            lag = Lag(metrics.lagged)
            app = create_app(stages, door, metrics, callers=callers, lag=lambda: lag.now, previews=previews)
            seconds = settings.warm_up_seconds
            warmed = await warm_up(app, stages.samples(), seconds) if seconds > 0 else 0
            for tally in stages.tallies:
                metrics.show_tally(tally.from_now())  # the warm-up is nobody's
            settle()
            log.info("%s", told({"version": door.version, **stages.facts, **stages.layout, "warm_up_queries": warmed}))
            async with lag.watched():
                await serve(app, settings.serving(), on_start=lambda url: log.info('{"listening": "%s"}', url))
        await asyncio.sleep(0)


@contextmanager
def _previews(settings: Settings) -> Generator[Previews]:
    """One document at a time for all dry runs. The lane ends first: its thread asks the processes behind it."""
    options = LaneOptions("parse", threads=1, line=8, foresight=False)
    with open_previewing(settings.ingest()) as previewer, Lane(options) as lane:
        yield Previews(previewer, lane)
