"""One caller of a real service who wants ten passages of a synthetic set, over a port, with nothing cached."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

from benchmarks.service import Service
from benchmarks.synthetic import COLLECTION
from benchmarks.zipf import PASSAGES_A_DOCUMENT
from fleetfoot.client import StageTiming

OFF = {
    "FLEETFOOT_CACHED_QUERIES": "0",
    "FLEETFOOT_CACHED_RETRIEVALS": "0",
    "FLEETFOOT_CACHED_SCORES": "0",
    "FLEETFOOT_SINGLE_FLIGHT": "false",
}
WANTED = {
    "collection": COLLECTION,
    "top_k": 10,
    "token_budget": 4000,
    "rerank": {"depth": 0},
    "pack": {"join_neighbours": False},  # so that ten passages are the ten best rows, as the peers hand them out
}


def body_of(question: str) -> str:
    """The request that asks it, within the default deadline."""
    return json.dumps({"query": question, **WANTED})


class Caller:
    """One caller of ours, on one connection; the standard library's client costs a few tenths of a millisecond."""

    def __init__(self, running: Service) -> None:
        self._connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=60)
        self.degraded = 0
        self.served = 0.0  # milliseconds of the last answer as the service counted them
        self.caches: dict[str, tuple[int, int]] = {}

    def search(self, query: str) -> tuple[list[int], dict[str, float], float]:
        """Rows, best first, milliseconds by stage (waiting and working), and the whole as the caller saw it."""
        body = body_of(query)
        began = time.perf_counter()
        self._connection.request("POST", "/v1/retrieve", body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        took = 1000 * (time.perf_counter() - began)
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {content[:300]!r}")
        (result,) = json.loads(content)["results"]
        self.served = result["timings"]["total_ms"]
        self.degraded += bool(result["degraded"])
        for name, use in result["timings"].get("caches", {}).items():
            hits, asked = self.caches.get(name, (0, 0))
            self.caches[name] = hits + use["hits"], asked + use["asked"]
        stages = {row.stage: row.waited_ms + row.worked_ms for row in StageTiming.read(result["timings"])}
        return [row_of(passage) for passage in result["passages"]], stages, took


def row_of(passage: dict[str, Any]) -> int:
    """The row of a passage that was handed out."""
    document, ordinal = str(passage["id"]).split(":")
    return int(document) * PASSAGES_A_DOCUMENT + int(ordinal)
