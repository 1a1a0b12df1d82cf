"""A real service for benchmarks and proofs: Valkey, workers and API in their own processes, data in a given folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from fleetfoot.demo import until_ready
from fleetfoot.processes import child
from retrieve.model_library import ModelLibrary
from workers.broker import EmbeddedRedis

# For comparisons with what computes everything anew.
CACHES_OFF = {
    "FLEETFOOT_CACHED_QUERIES": "0",
    "FLEETFOOT_CACHED_RETRIEVALS": "0",
    "FLEETFOOT_CACHED_SCORES": "0",
    "FLEETFOOT_SINGLE_FLIGHT": "false",
}


@dataclass
class Service:
    """What is running; `worker` may be ended and started again by a proof."""

    url: str
    data: Path
    redis_url: str
    environment: dict[str, str]
    api: Popen[bytes]
    workers: list[Popen[bytes]] = field(default_factory=list[Popen[bytes]])


@contextmanager
def service(data: Path, port: int, *, settings: Mapping[str, str] | None = None) -> Generator[Service]:
    """Starts everything and waits until it is ready; ends it all in reverse."""
    data.mkdir(parents=True, exist_ok=True)
    ModelLibrary(data / "models").add("default")
    url = f"http://127.0.0.1:{port}"
    with EmbeddedRedis.open() as redis:
        environment = {
            **os.environ,
            "FLEETFOOT_DATA_DIR": str(data),
            "FLEETFOOT_HOST": "127.0.0.1",
            "FLEETFOOT_PORT": str(port),
            "FLEETFOOT_REDIS_URL": redis.url,
            **(settings or {}),
        }
        logs = data / "logs"
        with (
            child(["work"], environment, logs / "worker.log") as worker,
            child(["serve"], environment, logs / "api.log") as api,
        ):
            asyncio.run(until_ready(url, api, logs / "api.log"))
            yield Service(url, data, redis.url, environment, api, [worker])
