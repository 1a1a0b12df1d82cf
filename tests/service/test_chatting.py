"""Chat through the unmodified openai package: streamed and whole, as a conversation, and what goes upstream."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import aiohttp
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from api.completions import ExtensionOut
from tests.running_service import MARKS, ROOT, Api, answered, events
from tests.service.conftest import TINY_RERANKER
from tests.upstream import Failure, FakeUpstream

pytestmark = MARKS

DEMO = tomllib.loads((ROOT / "examples" / "demo.toml").read_text(encoding="utf-8"))
QUESTION: Any = {"role": "user", "content": DEMO["question"]}
FOLLOW_UP: Any = {"role": "user", "content": DEMO["follow_up"]["question"]}


def new_question(why: str) -> Any:
    """One that nobody has asked yet, so that no cache answers it."""
    return {"role": "user", "content": f"{DEMO['question']} (Asked {why}.)"}


@asynccontextmanager
async def openai_client(api: Api) -> AsyncGenerator[AsyncOpenAI, None]:
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def quoting(api: Api) -> AsyncGenerator[AsyncOpenAI, None]:
    async with openai_client(api) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def generating(wired: Api) -> AsyncGenerator[AsyncOpenAI, None]:
    async with openai_client(wired) as client:
        yield client


async def test_without_a_model_server_the_answer_is_a_quotation_that_cites_its_document(quoting: AsyncOpenAI) -> None:
    answer = await quoting.chat.completions.create(model="handbook", messages=[QUESTION])
    assert DEMO["answer"] in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert DEMO["document"] in cited(extension_of(answer))


async def test_a_follow_up_that_says_nothing_by_itself_finds_the_document_of_its_conversation(
    quoting: AsyncOpenAI,
) -> None:
    first = await quoting.chat.completions.create(model="handbook", messages=[QUESTION])
    said: Any = {"role": "assistant", "content": first.choices[0].message.content}
    second = await quoting.chat.completions.create(model="handbook", messages=[QUESTION, said, FOLLOW_UP])
    told = extension_of(second)
    assert told.query.text == FOLLOW_UP["content"]
    assert [aside.text for aside in told.query.asides] == [QUESTION["content"]]
    assert told.passages[0].source == DEMO["follow_up"]["document"]
    alone = await quoting.chat.completions.create(model="handbook", messages=[FOLLOW_UP])
    assert extension_of(alone).query.asides == []
    assert extension_of(alone).passages[0].source != DEMO["follow_up"]["document"]


async def test_a_stream_arrives_in_chunks_and_ends_with_what_was_counted(
    upstream: FakeUpstream, generating: AsyncOpenAI
) -> None:
    upstream.behave(words=(" It", " stops", " [1]", "."))
    stream = await generating.chat.completions.create(
        model="handbook", messages=[QUESTION], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    said = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert said == [" It", " stops", " [1]", "."]
    assert len({chunk.id for chunk in chunks}) == 1
    *others, last = chunks
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 4
    assert last.usage.prompt_tokens > 100
    assert all(chunk.usage is None for chunk in others)
    assert [chunk.choices[0].finish_reason for chunk in others if chunk.choices[0].finish_reason] == ["stop"]
    assert [citation.number for citation in extension_of(others[-1]).citations] == [1]


async def test_a_whole_answer_has_its_text_its_count_and_everything_that_fleetfoot_adds(
    upstream: FakeUpstream, generating: AsyncOpenAI
) -> None:
    question = new_question("wholly")
    upstream.behave(words=(" It", " stops", " [2]", " [1]", " [99]", "."))
    raw = await generating.chat.completions.with_raw_response.create(
        model="handbook", messages=[question], extra_headers={"X-Request-Id": "svc-whole-1"}
    )
    answer = raw.parse()
    assert answer.choices[0].message.content == " It stops [2] [1] [99]."
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    assert answer.model == "handbook"
    told = extension_of(answer)
    assert told.request_id == "svc-whole-1" == raw.headers["X-Request-Id"]
    assert told.generation.startswith("handbook@")
    assert told.profile == "default"
    assert told.query.text == question["content"]
    assert DEMO["document"] in {passage.source for passage in told.passages}
    assert [citation.number for citation in told.citations] == [2, 1]
    assert {citation.id for citation in told.citations} <= {passage.id for passage in told.passages}
    assert told.unknown_citations == [99]
    expected = {
        "encode",
        "lexical",
        "dense",
        "fuse",
        "duplicates",
        "sizes",
        "pack",
        "prompt",
        "first_token",
        "generate",
    }
    expected |= {"rerank"} if TINY_RERANKER.is_dir() else set()
    assert expected <= {lap.stage.value for lap in told.timings.laps}
    assert told.timings.first_token_ms is not None
    assert told.timings.first_token_ms <= told.timings.total_ms


async def test_an_unknown_model_is_refused_with_the_known_ones(quoting: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await quoting.chat.completions.create(model="handbok", messages=[QUESTION])
    assert refused.value.code == "not_found"
    assert "'handbok'" in refused.value.message
    assert "handbook" in refused.value.message
    with pytest.raises(openai.NotFoundError, match="handbook"):
        await quoting.chat.completions.create(model="handbook@nobody", messages=[QUESTION])
    with pytest.raises(openai.NotFoundError):
        await quoting.chat.completions.create(model="handbok", messages=[QUESTION], stream=True)


async def test_the_models_are_the_collections(quoting: AsyncOpenAI) -> None:
    assert "handbook" in [model.id async for model in quoting.models.list()]
    assert (await quoting.models.retrieve("handbook")).id == "handbook"


async def test_the_callers_instructions_go_upstream_before_the_passages_and_the_question_last(
    upstream: FakeUpstream, generating: AsyncOpenAI
) -> None:
    instruction: Any = {"role": "system", "content": "Answer like a station announcement."}
    await generating.chat.completions.create(
        model="handbook",
        messages=[instruction, QUESTION],
        temperature=0.25,
        max_tokens=7,
        extra_headers={"X-Request-Id": "svc-upstream-1"},
    )
    (received,) = upstream.received
    assert received.headers["X-Request-Id"] == "svc-upstream-1"
    assert (received.payload["model"], received.payload["temperature"]) == ("demo", 0.25)
    assert received.payload["max_tokens"] == 7
    prompt = "\n".join(f"{message['role']}: {message['content']}" for message in received.payload["messages"])
    passage = prompt.index("stops ten metres short of it")
    assert 0 <= prompt.index(instruction["content"]) < passage < prompt.index(QUESTION["content"])
    assert [message["role"] for message in received.payload["messages"]] == ["system", "user"]
    assert "collection" not in received.payload
    assert "retrieval" not in received.payload


async def test_a_request_can_be_followed_by_its_id_into_the_log(
    upstream: FakeUpstream, wired: Api, generating: AsyncOpenAI
) -> None:
    question = new_question("for the log")
    await generating.chat.completions.create(
        model="handbook", messages=[question], extra_headers={"X-Request-Id": "svc-log-1"}
    )
    (line,) = wired.requests("svc-log-1")
    assert (line["status"], line["route"]) == (200, "/v1/chat/completions")
    assert line["generation"].startswith("handbook@")
    assert {"lexical", "dense", "first_token"} <= line["laps"].keys()
    assert question["content"] not in wired.log


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/retrieve", {"query": "marmot", "collection": "handbook"}, 200),
        ("POST", "/v1/retrieve", {"query": "marmot", "collection": "nowhere"}, 404),
        ("POST", "/v1/retrieve", {"query": "", "collection": "handbook"}, 400),
        ("POST", "/v1/retrieve", {"query": "marmot", "collection": "handbook", "deadline_ms": 0.001}, 504),
        ("POST", "/v1/chat/completions", {"model": "handbook", "messages": [QUESTION]}, 200),
        ("POST", "/v1/chat/completions", {"model": "handbook", "messages": [QUESTION], "stream": True}, 200),
        ("POST", "/v1/chat/completions", {"model": "nowhere", "messages": [QUESTION], "stream": True}, 404),
        ("GET", "/v1/jobs/nowhere", None, 404),
        ("GET", "/v1/nowhere", None, 404),
        ("DELETE", "/v1/retrieve", None, 405),
        ("GET", "/healthz", None, 200),
    ],
)
async def test_every_response_has_its_id_and_its_server_timing(
    client: aiohttp.ClientSession, method: str, path: str, body: Any, status: int
) -> None:
    async with client.request(method, path, json=body, headers={"X-Request-Id": "svc-timing-1"}) as response:
        assert response.status == status
        assert response.headers["X-Request-Id"] == "svc-timing-1"
        stages = [metric.partition(";")[0].strip() for metric in response.headers["Server-Timing"].split(",")]
        assert stages[0] == "total"
        if status == 200 and method == "POST":
            assert {"lexical", "dense", "pack"} <= set(stages) or {"cache", "pack"} <= set(stages)
        text = await response.text()
        if status >= 400:
            assert '"error"' in text
            assert '"code"' in text


async def test_a_model_server_that_fails_is_told_before_and_within_a_stream(
    upstream: FakeUpstream, wired: Api, wired_client: aiohttp.ClientSession
) -> None:
    asked = {"model": "handbook", "messages": [QUESTION], "stream": True}
    upstream.behave(failure=Failure.BROKEN)
    named = {"X-Request-Id": "broken"}
    refused = await answered(wired_client, "POST", "/v1/chat/completions", 502, json=asked, headers=named)
    assert refused["error"]["code"] == "upstream_failed"
    assert upstream.url not in refused["error"]["message"]
    (line,) = wired.requests("broken")
    assert upstream.url in line["detail"]
    upstream.behave(failure=Failure.DIES, fail_after=3)
    async with wired_client.post("/v1/chat/completions", json=asked) as response:
        told = [event async for event in events(response)]
    assert told[-1].name == "error"
    assert told[-1].json()["error"]["code"] == "upstream_failed"
    assert "[DONE]" not in [event.data for event in told]
    assert sum("content" in choice["delta"] for event in told[:-1] for choice in event.json()["choices"]) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_first_token_that_is_late_is_a_504_and_the_model_server_is_let_go(
    upstream: FakeUpstream, wired_client: aiohttp.ClientSession, stream: bool
) -> None:
    upstream.behave(before_first=inf)
    retrieval = {"search": {"legs": ["lexical"]}, "rerank": {"depth": 0}}
    asked = {"model": "handbook", "messages": [QUESTION], "stream": stream, "deadline_ms": 1500, "retrieval": retrieval}
    late = await answered(wired_client, "POST", "/v1/chat/completions", 504, json=asked)
    assert late["error"]["code"] == "out_of_time"
    assert "first_token" in late["error"]["message"]
    await (await upstream.nth(0)).left.wait()


async def test_stream_events_sends_the_passages_before_the_first_token_is_there(
    upstream: FakeUpstream, wired_client: aiohttp.ClientSession
) -> None:
    upstream.behave(before_first=inf)
    asked = {"model": "handbook", "messages": [QUESTION], "stream": True, "stream_events": True}
    async with wired_client.post("/v1/chat/completions", json=asked) as response:
        first = await anext(aiter(events(response)))
        assert first.name == "passages"
        assert DEMO["document"] in [passage["source"] for passage in first.json()["fleetfoot"]["passages"]]
        received = await upstream.nth(0)
        assert not received.speaking.is_set()
    await received.left.wait()


def extension_of(answer: Any) -> ExtensionOut:
    """What fleetfoot added, complete and nothing else."""
    added = answer.model_extra["fleetfoot"]
    assert added.keys() == ExtensionOut.model_fields.keys()
    return ExtensionOut.model_validate(added)


def cited(extension: ExtensionOut) -> set[str]:
    return {citation.source for citation in extension.citations}
