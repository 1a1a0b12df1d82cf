"""Answers as OpenAI clients see them, and what fleetfoot adds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from openai import APIError as OpenAIError
from openai import AsyncOpenAI, NotFoundError

from api.assembly import DoorOptions
from api.events import StreamOptions
from generate.vllm import VllmGenerator, VllmOptions
from pipeline.clock import Stage
from pipeline.errors import Overloaded, UpstreamFailed
from pipeline.passages import Degraded
from tests.fakes_api import FakeGenerator, FakeRetriever, Gate, Running, Service, events
from tests.upstream import FakeUpstream, Script


def openai(service: Service) -> AsyncOpenAI:
    """The unmodified openai package, pointed at the service."""
    return AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)


async def test_the_openai_package_gets_a_whole_answer_with_its_sources() -> None:
    async with Running() as service, openai(service) as client:
        answer = await client.chat.completions.create(
            model="handbook", messages=[{"role": "user", "content": "How many days of leave do I have?"}]
        )
    assert answer.choices[0].message.content == "You have 28 days [1]."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (12, 3, 15)
    extension: dict[str, Any] = (answer.model_extra or {})["fleetfoot"]
    assert [citation["document_id"] for citation in extension["citations"]] == ["leave"]
    assert extension["citations"][0]["page"] == 3
    assert [passage["document_id"] for passage in extension["passages"]] == ["leave", "notice", "shoes"]
    assert extension["generation"] == "handbook@7"
    assert {lap["stage"] for lap in extension["timings"]["laps"]} >= {"dense", "rerank", "first_token", "generate"}


async def test_the_openai_package_streams_and_only_the_last_chunks_carry_more_than_text() -> None:
    async with Running() as service, openai(service) as client:
        stream = await client.chat.completions.create(
            model="handbook@quick",
            messages=[{"role": "user", "content": "How many days of leave do I have?"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    *spoken, last, usage = chunks
    assert [chunk.choices[0].delta.content for chunk in spoken] == ["You have", " 28 days", " [1]."]
    assert spoken[0].choices[0].delta.role == "assistant"
    assert all("fleetfoot" not in (chunk.model_extra or {}) for chunk in spoken)
    assert last.choices[0].finish_reason == "stop"
    assert (last.model_extra or {})["fleetfoot"]["citations"][0]["number"] == 1
    assert (last.model_extra or {})["fleetfoot"]["profile"] == "quick"
    assert usage.choices == []
    assert usage.usage is not None
    assert usage.usage.total_tokens == 15


async def test_without_being_asked_no_chunk_is_without_a_choice() -> None:
    """Plain clients read `chunk.choices[0]` of every chunk."""
    async with Running() as service, await service.chat(stream=True) as response:
        told = await events(response)
    assert told[-1] == ("", "[DONE]")
    assert all(name == "" for name, _ in told)
    assert all(json.loads(data)["choices"] for _, data in told[:-1])


async def test_a_conversation_searches_with_what_a_follow_up_leans_on() -> None:
    retriever = FakeRetriever()
    async with Running(retriever=retriever) as service, openai(service) as client:
        answer = await client.chat.completions.create(
            model="handbook",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "How many days of leave do I have?"},
                {"role": "assistant", "content": "28 [1]."},
                {"role": "user", "content": [{"type": "text", "text": "And in Germany?"}]},
            ],
        )
        prompt = service.stages.generator.prompts[0]  # type: ignore[union-attr]
    query = retriever.queries[0]
    assert query.text == "And in Germany?"
    assert [(aside.text, aside.weight) for aside in query.asides] == [("How many days of leave do I have?", 0.5)]
    assert (answer.model_extra or {})["fleetfoot"]["query"]["asides"][0]["weight"] == 0.5
    assert [turn.role for turn in prompt.messages] == ["system", "system", "user", "assistant", "user"]
    assert prompt.messages[1].content == "Be brief."


async def test_a_retrieval_query_is_searched_instead() -> None:
    retriever = FakeRetriever()
    async with (
        Running(retriever=retriever) as service,
        await service.chat("Tell me more", retrieval_query="leave in Germany") as response,
    ):
        body = await response.json()
    assert retriever.queries[0].text == "leave in Germany"
    assert retriever.queries[0].asides == ()
    assert body["fleetfoot"]["query"] == {"text": "leave in Germany", "asides": []}


async def test_what_only_the_model_understands_reaches_it_untouched() -> None:
    script = Script(tool_call={"name": "look_up", "arguments": '{"a": 1}'}, words=())
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
    sampling = {
        "temperature": 0.25,
        "stop": ["x"],
        "tools": tools,
        "top_k": 40,
        "n": 1,
        "chat_template_kwargs": {"a": 1},
    }
    async with (
        FakeUpstream(script) as upstream,
        VllmGenerator.open(VllmOptions(upstream.url, "demo")) as generator,
        Running(generator=generator) as service,
        service.client.post(
            f"{service.url}/v1/chat/completions",
            json={"model": "handbook", "messages": [{"role": "user", "content": "Look it up"}], **sampling},
            headers={"X-Request-Id": "mine-1"},
        ) as response,
    ):
        body = await response.json()
        received = upstream.received[0]
    assert {name: received.payload[name] for name in sampling} == sampling
    assert not {"retrieval", "deadline_ms", "stream_events"} & set(received.payload)
    assert received.headers["X-Request-Id"] == "mine-1" == response.headers["X-Request-Id"]
    message = body["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"id": "call-1", "type": "function", "function": {"name": "look_up", "arguments": '{"a": 1}'}}
    ]
    assert message["content"] is None
    assert body["choices"][0]["finish_reason"] == "tool_calls"


async def test_an_unknown_model_is_a_404_that_names_the_known() -> None:
    async with Running() as service, openai(service) as client:
        with pytest.raises(NotFoundError, match="handbook, handbook@quick, laws, laws@quick"):
            await client.chat.completions.create(model="handbok", messages=[{"role": "user", "content": "Hello there"}])
        with pytest.raises(NotFoundError, match="handbook@quick"):
            await client.chat.completions.create(
                model="handbook@slow", messages=[{"role": "user", "content": "Hello there"}]
            )
        listed = [model.id async for model in client.models.list()]
        assert listed == ["handbook", "handbook@quick", "laws", "laws@quick"]
        assert (await client.models.retrieve("laws@quick")).owned_by == "default"
        with pytest.raises(NotFoundError):
            await client.models.retrieve("nothing")


async def test_events_arrive_one_by_one_and_passages_before_the_first_token() -> None:
    generator = FakeGenerator()
    generator.before_first = Gate(opened=False)
    async with Running(generator=generator) as service:
        response = await service.chat(stream=True, stream_events=True)
        assert response.headers["X-Accel-Buffering"] == "no"
        assert "no-transform" in response.headers["Cache-Control"]
        assert await response.content.readline() == b"event: passages\n"
        shown = json.loads((await response.content.readline()).removeprefix(b"data: "))
        assert shown["choices"] == []
        assert [passage["id"] for passage in shown["fleetfoot"]["passages"]] == ["leave:0", "notice:0", "shoes:0"]
        generator.between = Gate(opened=False)
        generator.before_first._open.set()
        await response.content.readline()
        assert b"You have" in await response.content.readline()
        generator.between._open.set()
        assert (await events(response))[-1] == ("", "[DONE]")
        response.close()


async def test_a_late_first_token_is_a_true_504_and_its_generator_is_closed() -> None:
    generator = FakeGenerator()
    generator.before_first = Gate(opened=False)
    async with Running(generator=generator) as service:
        for stream in (False, True):
            async with await service.chat(stream=stream, deadline_ms=800) as response:
                body = await response.json()
            assert response.status == 504
            assert body["error"]["code"] == "out_of_time"
            assert response.headers["X-Should-Retry"] == "false"
            assert "first_token;dur=" in response.headers["Server-Timing"]
            await generator.closed.wait()


async def test_a_full_model_is_a_true_503_that_says_when_to_come_back() -> None:
    generator = FakeGenerator()
    generator.error = Overloaded("The line is full.", retry_after=2.5)
    async with Running(generator=generator) as service, await service.chat(stream=True) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "3"
        assert response.headers["Retry-After-Ms"] == "2500"


async def test_what_fails_in_the_middle_is_an_error_event_that_the_openai_package_raises() -> None:
    generator = FakeGenerator()
    generator.late_error = UpstreamFailed("The model server broke off its answer.")
    async with Running(generator=generator) as service, openai(service) as client:
        stream = await client.chat.completions.create(
            model="handbook", messages=[{"role": "user", "content": "How many days of leave?"}], stream=True
        )
        with pytest.raises(OpenAIError, match="broke off"):
            async for _ in stream:
                pass
        async with await service.chat(stream=True) as response:
            told = await events(response)
    name, data = told[-1]
    assert name == "error"
    assert json.loads(data)["error"]["code"] == "upstream_failed"


async def test_an_unforeseen_failure_tells_only_the_requests_id() -> None:
    generator = FakeGenerator()
    generator.error = KeyError("secret detail")
    generator.late_error = None
    async with Running(generator=generator) as service:
        async with await service.chat() as response:
            text = await response.text()
        assert response.status == 500
        assert "secret" not in text
        assert response.headers["X-Request-Id"] in text
        generator.error, generator.late_error = None, KeyError("secret detail")
        async with await service.chat(stream=True) as response:
            name, data = (await events(response))[-1]
        assert name == "error"
        assert "secret" not in data


async def test_a_total_deadline_ends_a_stream_cleanly_and_says_so() -> None:
    generator = FakeGenerator()
    generator.between = Gate(opened=False)
    async with Running(generator=generator) as service:
        async with await service.chat(stream=True, total_deadline_ms=1000) as response:
            told = await events(response)
        last = json.loads(told[-2][1])
        assert told[-1] == ("", "[DONE]")
        assert last["choices"][0]["finish_reason"] == "length"
        assert [given_up["stage"] for given_up in last["fleetfoot"]["degraded"]] == ["generate"]
        async with await service.chat(total_deadline_ms=1000) as response:
            body = await response.json()
        assert body["choices"][0]["finish_reason"] == "length"
        assert body["choices"][0]["message"]["content"] == "You have"
        await generator.closed.wait()


async def test_a_model_that_falls_silent_ends_a_stream_cleanly() -> None:
    generator = FakeGenerator()
    generator.between = Gate(opened=False)
    options = DoorOptions(streams=StreamOptions(inter_token=0.05))
    async with Running(options, generator=generator) as service, await service.chat(stream=True) as response:
        told = await events(response)
    last = json.loads(told[-2][1])
    assert last["choices"][0]["finish_reason"] == "length"
    assert last["fleetfoot"]["degraded"][0] == {
        "stage": "generate",
        "reason": "out_of_time",
        "detail": "no token for 0.05 s",
    }


async def test_an_idle_stream_gets_a_comment() -> None:
    generator = FakeGenerator()
    generator.between = Gate(opened=False)
    async with (
        Running(DoorOptions(streams=StreamOptions(ping=0.02)), generator=generator) as service,
        await service.chat(stream=True) as response,
    ):
        async with asyncio.timeout(5):
            while await response.content.readline() != b": ping\n":
                pass
        generator.between._open.set()
        assert (await events(response))[-1] == ("", "[DONE]")


async def test_a_reader_that_takes_nothing_is_hung_up_on() -> None:
    generator = FakeGenerator("x" * 100_000)
    generator.endless = True
    async with Running(DoorOptions(streams=StreamOptions(stall=0.1)), generator=generator) as service:
        response = await service.chat(stream=True)
        async with asyncio.timeout(20):
            await generator.closed.wait()
        with pytest.raises(aiohttp.ClientError):
            await response.read()
        response.close()


async def test_what_was_given_up_stands_in_the_answer() -> None:
    retriever = FakeRetriever()
    retriever.degraded = (Degraded(Stage.DENSE, "overloaded", "line of 64"),)
    async with Running(retriever=retriever) as service, await service.chat() as response:
        body = await response.json()
    assert body["fleetfoot"]["degraded"] == [{"stage": "dense", "reason": "overloaded", "detail": "line of 64"}]


async def test_finding_leaves_the_model_its_share_of_the_deadline() -> None:
    """A search that would take for ever is cut at half of a chat's deadline, not at its end."""
    retriever = FakeRetriever()
    retriever.gate = Gate(opened=False)
    async with Running(retriever=retriever) as service, await service.chat(deadline_ms=2000) as response:
        body = await response.json()
    assert response.status == 504
    assert "'dense'" in body["error"]["message"]
    granted = float(body["error"]["message"].split(" ms")[0].split()[-1])
    assert granted <= 1000


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "assistant", "content": "Hello"}]}, "messages"),
        ({"messages": [{"content": "Hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"retrieval": {"top_k": 5000}}, "top_k"),
        ({"retrieval": {"topk": 5}}, "retrieval.topk"),
        ({"deadline_ms": -1}, "deadline_ms"),
        ({"deadline_ms": 1e9}, "deadline_ms"),
        ({"total_deadline_ms": 1e12}, "total_deadline_ms"),
        ({"retrieval_query": " "}, "retrieval_query"),
        ({"stream": "perhaps"}, "stream"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "\udfff"}]}, "messages[0].content"),
        ({"model": "\udfff"}, "model"),
    ],
)
async def test_a_request_that_cannot_be_used_names_the_field(body: dict[str, object], field: str) -> None:
    async with Running() as service, await service.chat(**body) as response:
        error = (await response.json())["error"]
    assert response.status == 400
    assert error["param"] == field
    assert error["type"] == "invalid_request_error"
