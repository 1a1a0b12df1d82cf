"""What every response, every log line and every figure has."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from openapi_spec_validator import validate

from api.assembly import DoorOptions, create_app
from api.limits import Limits
from api.metrics import Metrics
from api.settings import Settings, table
from pipeline.clock import Stage
from pipeline.errors import Misconfigured, Unavailable
from pipeline.health import Check, Figure, Tally
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Degraded
from tests.fakes_api import FakeRetriever, FakeStages, Running, events, works


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/healthz", 200),
        ("GET", "/nothing", 404),
        ("PUT", "/v1/retrieve", 405),
        ("POST", "/v1/retrieve", 400),
        ("GET", "/v1/jobs/nothing", 404),
        ("GET", "/v1/jobs?limit=0", 400),
    ],
)
async def test_every_response_has_its_id_and_its_timings_and_errors_their_envelope(
    method: str, path: str, status: int
) -> None:
    async with Running() as service, service.client.request(method, service.url + path) as response:
        body = await response.json()
    assert response.status == status
    assert response.headers["X-Request-Id"]
    assert response.headers["Server-Timing"].startswith("total;dur=")
    if status >= 400:
        assert set(body["error"]) == {"message", "type", "param", "code"}


async def test_a_request_id_is_taken_over_when_it_is_a_plain_word() -> None:
    async with Running() as service:
        for offered, taken in (("abc-1.2:3_4", True), ("a b", False), ("x" * 200, False), ("ü", False)):
            async with service.client.get(f"{service.url}/healthz", headers={"X-Request-Id": offered}) as response:
                assert (response.headers["X-Request-Id"] == offered) is taken


async def test_one_json_line_tells_of_a_request_and_never_its_text(caplog: pytest.LogCaptureFixture) -> None:
    retriever = FakeRetriever()
    retriever.degraded = (Degraded(Stage.LEXICAL, "no_terms"),)
    with caplog.at_level(logging.INFO, "fleetfoot.requests"):
        async with Running(retriever=retriever) as service:
            async with await service.retrieve(query="secret words", profile="quick") as response:
                await response.read()
            async with await service.chat("secret words", stream=True) as response:
                await events(response)
    lines = [json.loads(record.message) for record in caplog.records if record.name == "fleetfoot.requests"]
    assert all("secret" not in record.message for record in caplog.records)
    retrieved, chatted = lines
    assert (retrieved["status"], retrieved["route"], retrieved["profile"]) == (200, "/v1/retrieve", "quick")
    assert (retrieved["generation"], retrieved["degraded"]) == ("handbook@7", ["lexical: no_terms"])
    assert retrieved["query"] == chatted["query"]
    assert len(retrieved["laps"]["dense"]) == 1
    assert set(chatted["laps"]) == {"dense", "rerank", "pack", "prompt", "first_token", "generate"}
    assert chatted["first_token_ms"] <= chatted["first_event_ms"] <= chatted["ms"]
    assert chatted["request"] == response.headers["X-Request-Id"]


async def test_metrics_keep_waiting_and_working_apart_and_count_what_happened() -> None:
    retriever = FakeRetriever()
    retriever.degraded = (Degraded(Stage.DENSE, "overloaded"),)
    async with Running(retriever=retriever) as service:
        async with await service.retrieve() as response:
            await response.read()
        async with await service.retrieve(collection="nothing") as response:
            await response.read()
        async with await service.chat(stream=True) as response:
            await events(response)
        async with service.client.get(f"{service.url}/metrics") as response:
            text = await response.text()
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    for line in (
        'fleetfoot_stage_seconds_count{kind="waited",stage="dense"} 2.0',
        'fleetfoot_stage_seconds_count{kind="worked",stage="rerank"} 2.0',
        'fleetfoot_stage_seconds_count{kind="worked",stage="generate"} 1.0',
        'fleetfoot_request_seconds_count{route="/v1/retrieve",status="404"} 1.0',
        'fleetfoot_errors_total{code="not_found"} 1.0',
        'fleetfoot_degraded_total{reason="overloaded",stage="dense"} 2.0',
        'fleetfoot_deadlines_total{met="yes"} 2.0',
        "fleetfoot_first_event_seconds_count 1.0",
        "fleetfoot_first_token_seconds_count 1.0",
        "fleetfoot_completion_seconds_count 2.0",
        "fleetfoot_inter_token_seconds_count 2.0",
        "fleetfoot_tokens_per_second_count 1.0",
        "fleetfoot_requests_inside 1.0",
    ):
        assert line in text


async def test_a_catalog_that_is_away_is_waited_for_and_only_the_log_says_where_it_should_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "fleetfoot.requests"):
        async with Running() as service:
            service.stages.catalog.error = Unavailable("connection to 10.0.0.7 refused")
            async with service.client.get(f"{service.url}/v1/collections") as response:
                body = await response.text()
    assert response.status == 503
    assert response.headers["Retry-After"] == "2"
    assert "X-Should-Retry" not in response.headers
    assert json.loads(body)["error"]["code"] == "catalog_unavailable"
    assert "10.0.0.7" not in body
    line = json.loads(caplog.records[-1].message)
    assert (line["code"], line["detail"]) == ("catalog_unavailable", "connection to 10.0.0.7 refused")


def test_metrics_show_what_others_keep() -> None:
    counts = {"cached": 1.0, "computed": 2.0}
    metrics = Metrics()
    metrics.show(Figure("encode_line", "Queries in line.", lambda: 41.0))
    metrics.show_tally(Tally("query_vectors", "Query vectors.", "how", lambda: counts))
    counts["cached"] = 3.0
    shown = metrics.text().decode()
    assert "# TYPE fleetfoot_encode_line gauge\nfleetfoot_encode_line 41.0\n" in shown
    assert (
        "# HELP fleetfoot_query_vectors_total Query vectors.\n# TYPE fleetfoot_query_vectors_total counter\n" in shown
    )
    assert 'fleetfoot_query_vectors_total{how="cached"} 3.0\n' in shown
    assert 'fleetfoot_query_vectors_total{how="computed"} 2.0\n' in shown


async def test_ready_names_each_reason_and_is_503_when_a_thing_is_not_that_requests_need() -> None:
    async def broken() -> str:
        raise Misconfigured("FLEETFOOT_UPSTREAM_URL answers nobody. Start the model server.")

    async def odd() -> str:
        raise KeyError("secret")

    async with Running() as service, service.client.get(f"{service.url}/readyz") as response:
        assert response.status == 200
        assert await response.json() == {
            "status": "ready",
            "checks": {"index": {"ok": True, "needed": True, "detail": "ok"}},
        }
    checks = {"index": Check(works), "upstream": Check(broken), "odd": Check(odd)}
    async with Running(checks=checks) as service, service.client.get(f"{service.url}/readyz") as response:
        body = await response.json()
        assert response.status == 503
    assert body["checks"]["index"]["ok"]
    assert "Start the model server" in body["checks"]["upstream"]["detail"]
    assert "secret" not in body["checks"]["odd"]["detail"]
    checks = {"index": Check(works), "broker": Check(broken, needed=False)}
    async with Running(checks=checks) as service, service.client.get(f"{service.url}/readyz") as response:
        body = await response.json()
        assert response.status == 200
    assert (body["status"], body["checks"]["broker"]["ok"]) == ("ready", False)


async def test_a_body_over_its_limit_is_refused() -> None:
    async with (
        Running(DoorOptions(limits=Limits(body=1000))) as service,
        await service.chat("a" * 2000) as response,
    ):
        error = (await response.json())["error"]
    assert response.status == 413
    assert "1000" in error["message"]


def test_the_openapi_document_is_valid_and_has_an_example_for_every_body() -> None:
    with Lane(LaneOptions("catalog")) as lane:
        document = create_app(FakeStages(lane), DoorOptions(version="1.2.3")).openapi()
    validate(document)
    json.dumps(document)
    assert "HTTPValidationError" not in json.dumps(document)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["description"], (method, path)
            if path.startswith("/v1/"):
                assert "default" in operation["responses"], (method, path)
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                described = content.get("example") or content.get("examples") or kind == "multipart/form-data"
                assert described, (method, path, kind)


async def test_root_says_who_this_is_and_where_to_go_on() -> None:
    async with Running() as service, service.client.get(service.url) as response:
        body = await response.json()
    assert (body["name"], body["version"], body["generator"]) == ("fleetfoot", "1.2.3", "fake")
    assert body["links"]["chat"] == "/v1/chat/completions"
    assert body["facts"] == {"embedder": "fake"}


async def test_a_client_that_left_is_no_error_of_the_service(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fleetfoot.requests"):
        async with Running() as service:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rsplit(":", 1)[1]))
            writer.write(b"POST /v1/retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            async with asyncio.timeout(5):
                while not caplog.records:  # noqa: ASYNC110  a log has no event
                    await asyncio.sleep(0.01)
            del reader
    line = json.loads(caplog.records[0].message)
    assert (line["status"], line["left"]) == (499, True)


async def test_a_deadline_runs_from_the_requests_first_byte() -> None:
    """What a slow client takes to send its request is part of the time that it granted."""
    body = b'{"query": "leave", "collection": "handbook", "deadline_ms": 50}'
    async with Running() as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rsplit(":", 1)[1]))
        writer.write(b"POST /v1/retrieve HTTP/1.1\r\nHost: localhost\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        assert (await reader.readline()).startswith(b"HTTP/1.1 504")
        writer.close()
        await writer.wait_closed()
    assert service.stages.retriever.gate.reached.is_set() is False  # type: ignore[union-attr]


def test_settings_come_from_the_environment_and_are_all_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOOT_PORT", "9090")
    monkeypatch.setenv("FLEETFOOT_DEADLINE_MS", "250")
    monkeypatch.setenv("FLEETFOOT_UPSTREAM_API_KEY", "sesame")
    settings = Settings.read()
    assert settings.serving().port == 9090
    assert settings.profile().deadline == 0.25
    assert "sesame" not in repr(settings)
    assert all(text for _, _, text in table())
    monkeypatch.setenv("FLEETFOOT_PORT", "many")
    with pytest.raises(Misconfigured, match="FLEETFOOT_PORT=many"):
        Settings.read()
    monkeypatch.setenv("FLEETFOOT_PORT", "8080")
    monkeypatch.setenv("FLEETFOOT_HOST", "0.0.0.0")
    with pytest.raises(Misconfigured, match="FLEETFOOT_KEYS_FILE"):
        Settings.read()
