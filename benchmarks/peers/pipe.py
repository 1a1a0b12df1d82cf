"""How a peer is asked: one JSON request a line on standard input, one JSON answer a line on standard output.

`{"query": TEXT}` is answered `{"rows": [best first], "ms": {stage: …}}`, timed within the peer, so that the pipe costs
it nothing. `{"queries": [TEXT, …], "callers": N}` is answered `{"seconds": …, "ms": [of each query]}`: N threads that
take the next query as soon as they are done with one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Search = Callable[[str], tuple[list[int], dict[str, float]]]  # rows, and seconds by stage


def serve(search: Search, **told: object) -> None:
    """Says `ready` with what is `told`, and answers until standard input ends."""
    _write({"ready": True, **told})
    for line in sys.stdin:
        asked = json.loads(line)
        if "query" in asked:
            rows, seconds = search(asked["query"])
            _write({"rows": rows, "ms": {stage: 1000 * took for stage, took in seconds.items()}})
        else:
            _write(_at_once(search, asked["queries"], asked["callers"]))


def _at_once(search: Search, queries: list[str], callers: int) -> dict[str, object]:
    def timed(query: str) -> float:
        began = time.perf_counter()
        search(query)
        return 1000 * (time.perf_counter() - began)

    began = time.perf_counter()
    with ThreadPoolExecutor(callers) as pool:
        took = list(pool.map(timed, queries))
    return {"seconds": time.perf_counter() - began, "ms": took}


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
