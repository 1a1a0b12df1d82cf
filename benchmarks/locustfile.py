"""Fleetfoot as Locust's users ask it: passages, and streamed answers with their first token as an entry of its own.

    locust -f benchmarks/locustfile.py --host http://127.0.0.1:8080 --headless --users 8 --run-time 30s

FLEETFOOT_KEY, COLLECTION and QUERIES (a file, one a line) are read from the environment. Each user waits for its answer
before it asks again, so this is a closed loop: what was not asked while the service stalled is missing from Locust's
percentiles. `fleetfoot bench` sends on time; Locust is for mixed user journeys, ramps by hand and its web page.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

from locust import HttpUser, between, task

SAMPLE = Path(__file__).resolve().parents[1] / "examples" / "questions" / "queries.jsonl"
COLLECTION = os.environ.get("COLLECTION", "handbook")


def queries() -> list[str]:
    """From the file that was named, else the sample handbook's questions."""
    if named := os.environ.get("QUERIES"):
        return [line for line in Path(named).read_text(encoding="utf-8").splitlines() if line.strip()]
    return [json.loads(line)["text"] for line in SAMPLE.read_text(encoding="utf-8").splitlines()]


class Reader(HttpUser):
    """Looks for passages nine times, then has a question answered."""

    wait_time = between(0.2, 1.0)
    asked = queries()

    def on_start(self) -> None:
        if key := os.environ.get("FLEETFOOT_KEY"):
            self.client.headers["Authorization"] = f"Bearer {key}"

    @task(9)
    def retrieve(self) -> None:
        """Counts what was degraded as a failure only where it was for want of time."""
        body = {"collection": COLLECTION, "query": random.choice(self.asked), "deadline_ms": 250}
        with self.client.post("/v1/retrieve", json=body, catch_response=True) as response:
            if response.status_code != 200:
                return
            (result,) = response.json()["results"]
            late = [each["stage"] for each in result["degraded"] if each["reason"] in {"out_of_time", "overloaded"}]
            if late:
                response.failure(f"degraded: {', '.join(late)}")

    @task(1)
    def chat(self) -> None:
        """Streams an answer; the time to its first words is reported as `first token`."""
        message = {"role": "user", "content": random.choice(self.asked)}
        body = {"model": COLLECTION, "messages": [message], "stream": True, "deadline_ms": 2000}
        began = time.perf_counter()
        first: float | None = None
        with self.client.post("/v1/chat/completions", json=body, stream=True, catch_response=True) as response:
            if response.status_code != 200:
                return
            ended = False
            for line in response.iter_lines():
                if not line.startswith(b"data: "):
                    continue
                if line == b"data: [DONE]":
                    ended = True
                    break
                choices = json.loads(line[6:]).get("choices") or [{}]
                if first is None and choices[0].get("delta", {}).get("content"):
                    first = time.perf_counter() - began
            if not ended:
                response.failure("the stream broke off")
        if first is not None:
            self.environment.events.request.fire(
                request_type="SSE",
                name="first token",
                response_time=first * 1000,
                response_length=0,
                exception=None,
                context={},
            )
