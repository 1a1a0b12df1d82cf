"""A service whose encoder is slow, asked for more than it can do: nobody is kept waiting for nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import aiohttp
import pytest

from fleetfoot.processes import end
from tests.running_service import MARKS, ROOT, Api, Site, retrieved
from tests.searching import until

pytestmark = MARKS

CACHES_OFF = {"CACHED_QUERIES": "0", "CACHED_RETRIEVALS": "0", "SINGLE_FLIGHT": "false"}
NOT_RERANKED = {"rerank": {"depth": 0}}


@pytest.fixture(scope="module")
def slow(site: Site, api: Api) -> Generator[Api, None, None]:
    """A second door to the same data, with an encoder that sleeps 6 ms for each padded token: some 60 for a query."""
    log = site.data / "logs" / "slowed.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.slowed", "--token-ms", "6"],
            cwd=ROOT,
            env=site.environment(**CACHES_OFF),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Api(process, log)
    try:
        running.url = json.loads(running.said('"listening"'))["listening"]
        yield running
    finally:
        end(process)
    assert "Traceback" not in running.log, running.log[-4000:]


async def ask(client: aiohttp.ClientSession, number: int, **asked: Any) -> tuple[int, Any, aiohttp.ClientResponse]:
    body = {"query": f"refund of ticket {number}", "collection": "handbook", **NOT_RERANKED, **asked}
    async with client.post("/v1/retrieve", json=body) as response:
        return response.status, await response.json(), response


async def test_beyond_what_it_can_do_it_answers_with_less_or_refuses_and_recovers(slow: Api) -> None:
    async with slow.client() as client:
        for number in range(5):  # it learns how slow its encoder is
            await retrieved(client, f"tram {number}", **NOT_RERANKED)
        asked = (ask(client, number, deadline_ms=1000) for number in range(60))
        answers = await asyncio.gather(*asked)
        assert {status for status, _, _ in answers} <= {200, 503}
        for status, body, response in answers:
            if status == 503:
                assert body["error"]["code"] == "overloaded"
                assert int(response.headers["Retry-After"]) >= 1
                assert int(response.headers["Retry-After-Ms"]) >= 1
        results = [body["results"][0] for status, body, _ in answers if status == 200]
        assert all(result["passages"] for result in results)
        given_up = {(each["stage"], each["reason"]) for result in results for each in result["degraded"]}
        assert given_up & {("encode", "overloaded"), ("dense", "load")}, given_up
        refused = [
            lap
            for result in results
            if any((each["stage"], each["reason"]) == ("encode", "overloaded") for each in result["degraded"])
            for lap in result["timings"]["laps"]
            if lap["stage"] == "encode"
        ]
        assert not [lap for lap in refused if lap["cut"]], "a line refuses on joining, and not when the time is over"
        after = await retrieved(client, "lost property", **NOT_RERANKED)
        assert after["degraded"] == []


async def test_an_interactive_request_overtakes_the_batch_requests_in_line(slow: Api) -> None:
    ended: list[str] = []
    async with slow.client() as client:

        async def asked(name: str, number: int, **more: Any) -> None:
            status, _, _ = await ask(client, number, deadline_ms=30_000, **more)
            assert status == 200
            ended.append(name)

        batch = [asyncio.create_task(asked("batch", number, priority="batch")) for number in range(60)]
        await until(lambda: bool(ended))
        await asked("interactive", 1000)
        await asyncio.gather(*batch)
    assert ended.index("interactive") < 40, ended  # about ten share a batch, of which two were before it
