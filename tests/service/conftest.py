"""One service for this room: Valkey, workers and the API as processes, with the handbook sent by the command."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from pipeline.errors import Misconfigured
from tests.running_service import HANDBOOK, ROOT, Api, Site, command, fetched_model
from tests.upstream import FakeUpstream, Script
from workers.broker import EmbeddedRedis

TINY_RERANKER = ROOT / ".." / "shared" / "models" / "ce-tiny"
UPLOAD_LIMIT = 200_000  # bytes
HOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOKS = {"WEBHOOK_SECRET": HOOK_SECRET, "ALLOW_PRIVATE_ADDRESSES": "true"}


@pytest.fixture(scope="session")
def model() -> Path:
    try:
        return fetched_model()
    except Misconfigured as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def site(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Site, None, None]:
    """Where everybody's documents are; its workers run until the end."""
    with EmbeddedRedis.open() as redis:
        made = Site.make(tmp_path_factory.mktemp("service") / "data", redis.url, model)
        with made.working(**HOOKS):
            yield made


@dataclass(frozen=True, slots=True)
class Sent:
    """What the command said when it had sent the handbook, and its exit status."""

    status: int
    told: dict[str, Any]


@pytest.fixture(scope="session")
def empty_api(site: Site) -> Generator[Api, None, None]:
    with site.serving() as serving:
        yield serving


@pytest.fixture(scope="session")
def handbook(empty_api: Api) -> Sent:
    """The handbook, sent once."""
    done = command("ingest", "--json", "--collection", "handbook", "--url", empty_api.url, str(HANDBOOK))
    assert done.stdout, done.stderr
    return Sent(done.returncode, json.loads(done.stdout))


@pytest.fixture(scope="session")
def api(empty_api: Api, handbook: Sent) -> Api:
    """Answers from the handbook by quoting it."""
    return empty_api


@pytest_asyncio.fixture(loop_scope="session")
async def client(api: Api) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with api.client() as session:
        yield session


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model_server() -> AsyncGenerator[FakeUpstream, None]:
    async with FakeUpstream() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def upstream(model_server: FakeUpstream) -> FakeUpstream:
    """The model server behind `wired`, with nothing received yet and its usual words."""
    model_server.script = Script()
    model_server.received.clear()
    return model_server


@pytest.fixture(scope="session")
def wired(site: Site, api: Api, model_server: FakeUpstream) -> Generator[Api, None, None]:
    """A second door to the same data: with a model server and, where there is one, a reranker; takes small uploads."""
    settings = {"RERANKER": str(TINY_RERANKER.resolve())} if TINY_RERANKER.is_dir() else {}
    with site.serving(
        UPSTREAM_URL=model_server.url, UPSTREAM_MODEL="demo", MAX_UPLOAD_BYTES=str(UPLOAD_LIMIT), **settings, **HOOKS
    ) as serving:
        yield serving


@pytest_asyncio.fixture(loop_scope="session")
async def wired_client(wired: Api) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with wired.client() as session:
        yield session
