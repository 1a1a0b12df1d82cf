"""A full service, as its clients see it: who comes first, what they are told, and when they may come back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from pathlib import Path

import openai
import pytest

from api.assembly import DoorOptions
from pipeline.clock import Stage
from pipeline.load import LoadOptions
from tests.fakes_api import FakeRetriever, Gate, Running, Service
from tests.searching import until


@dataclass
class Wait:
    """A line whose wait a test sets."""

    seconds: float = 0.0

    def expected_wait(self, priority: int = 0, deadline: float = inf) -> float:
        return self.seconds * (10 if priority else 1)


SLUGGISH = DoorOptions(load=LoadOptions(rise=0.0001))


async def metric(service: Service, name: str) -> float:
    async with service.client.get(f"{service.url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


async def busy(service: Service, **body: object) -> None:
    """Lets the load be believed."""
    for _ in range(6):
        async with await service.retrieve(**body) as response:
            await response.read()


async def test_under_load_an_answer_says_what_it_gave_up_and_why() -> None:
    line, retriever = Wait(), FakeRetriever()
    async with Running(SLUGGISH, retriever=retriever, lines={Stage.ENCODE: line}) as service:
        line.seconds = 0.35 * 5
        await busy(service, deadline_ms=5000)
        async with await service.retrieve(deadline_ms=5000) as response:
            (result,) = (await response.json())["results"]
        (given_up,) = result["degraded"]
        assert (given_up["stage"], given_up["reason"]) == ("rerank", "load")
        assert given_up["detail"].startswith("12 of 50 at most, as a request would wait 3")
        assert retriever.queries[-1].profile.rerank.depth == 12
        assert await metric(service, "fleetfoot_load_level") >= 1
        assert await metric(service, 'fleetfoot_load_steps_total{step="quarter_rerank"}') >= 1
        assert await metric(service, 'fleetfoot_degraded_total{reason="load",stage="rerank"}') >= 1


async def test_a_chat_is_eased_alike_and_says_so_at_its_end() -> None:
    line, retriever = Wait(), FakeRetriever()
    async with Running(SLUGGISH, retriever=retriever, lines={Stage.ENCODE: line}) as service:
        line.seconds = 3.5
        await busy(service, deadline_ms=5000)
        async with await service.chat(deadline_ms=10_000) as response:
            told = (await response.json())["fleetfoot"]["degraded"]
    assert [(each["stage"], each["reason"]) for each in told] == [("rerank", "load"), ("dense", "load")]
    assert [leg.value for leg in retriever.queries[-1].profile.search.legs] == ["lexical"]


async def test_a_full_service_refuses_before_any_work_and_says_when_to_come_back() -> None:
    line, retriever = Wait(), FakeRetriever()
    async with Running(SLUGGISH, retriever=retriever, lines={Stage.ENCODE: line}) as service:
        line.seconds = 7.2
        await busy(service)
        asked = len(retriever.queries)
        async with await service.retrieve() as response:
            assert response.status == 503
            assert (response.headers["Retry-After"], response.headers["Retry-After-Ms"]) == ("8", "7200")
            assert (await response.json())["error"]["code"] == "overloaded"
        assert len(retriever.queries) == asked
        line.seconds = 0.0
        async with await service.retrieve() as response:
            assert response.status == 200
            assert (await response.json())["results"][0]["degraded"] == []


async def test_the_openai_package_comes_back_after_the_milliseconds_that_it_was_told() -> None:
    line, retriever = Wait(), FakeRetriever()
    async with Running(SLUGGISH, retriever=retriever, lines={Stage.ENCODE: line}) as service:
        line.seconds = 0.6
        await busy(service, deadline_ms=500)
        before = await metric(service, 'fleetfoot_errors_total{code="overloaded"}')
        async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=1) as client:
            asking = asyncio.create_task(
                client.chat.completions.create(
                    model="handbook",
                    messages=[{"role": "user", "content": "leave?"}],
                    extra_body={"deadline_ms": 1000},
                )
            )
            for _ in range(1000):
                if await metric(service, 'fleetfoot_errors_total{code="overloaded"}') > before:
                    break
            line.seconds = 0.0
            assert (await asking).choices[0].message.content


@pytest.mark.parametrize("priority", ["batch", 1, 7])
async def test_batch_traffic_is_eased_while_interactive_traffic_is_not(priority: str | int) -> None:
    line = Wait(0.1)
    async with Running(SLUGGISH, lines={Stage.ENCODE: line}) as service:
        await busy(service, deadline_ms=5000, priority=priority)
        async with await service.retrieve(deadline_ms=5000, priority=priority) as response:
            assert (await response.json())["results"][0]["degraded"][0]["reason"] == "load"
        async with await service.retrieve(deadline_ms=5000) as response:
            assert (await response.json())["results"][0]["degraded"] == []


@pytest.mark.parametrize(("asked", "priority"), [("batch", 1), (5, 5), (-3, 0), ("interactive", 0), (None, 0)])
async def test_a_request_may_step_back_and_never_forward(asked: str | int | None, priority: int) -> None:
    retriever = FakeRetriever()
    async with Running(retriever=retriever) as service:
        async with await service.retrieve(priority=asked) as response:
            assert response.status == 200
        async with await service.chat(priority=asked) as response:
            assert response.status == 200
    assert [query.caller.priority for query in retriever.queries] == [priority, priority]
    assert "priority" not in retriever.queries[1].sampling


async def test_a_priority_that_is_none_is_an_error_that_names_it() -> None:
    async with Running() as service, await service.retrieve(priority="urgent") as response:
        assert response.status == 400
        assert (await response.json())["error"]["param"] == "priority"


async def test_beyond_the_places_inside_requests_are_refused_and_health_is_not() -> None:
    retriever = FakeRetriever()
    retriever.gate = Gate(opened=False)
    async with Running(DoorOptions(load=LoadOptions(inside=2)), retriever=retriever) as service:
        held = [asyncio.create_task(service.retrieve(deadline_ms=500)) for _ in range(2)]
        await retriever.gate.reached.wait()
        await until(lambda: len(retriever.queries) == 2)
        async with await service.retrieve() as response:
            assert response.status == 503
            assert int(response.headers["Retry-After"]) >= 1
        async with service.client.get(f"{service.url}/healthz") as response:
            assert response.status == 200
        for task in held:
            (await task).close()
        async with await service.retrieve(deadline_ms=20) as response:
            assert response.status == 504


async def test_a_chat_is_refused_at_once_where_the_line_for_the_model_server_is_longer_than_its_deadline() -> None:
    retriever = FakeRetriever()
    async with Running(retriever=retriever, lines={Stage.FIRST_TOKEN: Wait(12.0)}) as service:
        async with await service.chat(deadline_ms=2000) as response:
            assert response.status == 503
            assert 10_000 <= int(response.headers["Retry-After-Ms"]) <= 10_100
        assert retriever.queries == []
        async with await service.chat(deadline_ms=30_000) as response:
            assert response.status == 200


async def test_a_used_up_quota_is_the_callers_own_429_with_the_time_until_its_next_request(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    digest = sha256(b"ff-key").hexdigest()
    file.write_text(
        f'[[keys]]\nhash = "sha256:{digest}"\ntenant = "acme"\nscopes = ["read"]\nquota = 2\npriority = 1\n'
    )
    headers = {"Authorization": "Bearer ff-key"}
    async with Running(DoorOptions(keys_file=file)) as service:
        for status in (200, 200, 429):
            async with service.client.post(
                f"{service.url}/v1/retrieve", json={"query": "leave", "collection": "handbook"}, headers=headers
            ) as response:
                assert response.status == status
        assert 28 <= int(response.headers["Retry-After"]) <= 30
        assert int(response.headers["Retry-After-Ms"]) <= 30_000
