"""The vLLM client against a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from generate.vllm import VllmGenerator, VllmOptions
from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import FleetfootError, InvalidInput, Misconfigured, OutOfTime, Overloaded, UpstreamFailed
from pipeline.passages import Token, Turn, Usage
from tests.prompts import context_of, prompt_of
from tests.upstream import Failure, FakeUpstream, Form, Script

PROMPT = prompt_of("Where are shoes kept?", context_of("Shoes are kept in the blue box."))
SOON = 5.0  # seconds: a bound that keeps a broken test from hanging, nothing that is measured


@asynccontextmanager
async def a_pair(
    script: Script | None = None, **options: Any
) -> AsyncGenerator[tuple[FakeUpstream, VllmGenerator], None]:
    async with (
        FakeUpstream(script) as upstream,
        VllmGenerator.open(VllmOptions(base_url=upstream.url, model="demo", **options)) as generator,
    ):
        yield upstream, generator


async def all_of(generator: VllmGenerator, prompt: Any = PROMPT) -> list[Token]:
    async with aclosing(generator.generate(prompt)) as tokens:
        return [token async for token in tokens]


async def failing(script: Script, kind: type[FleetfootError], **options: Any) -> tuple[list[str], FleetfootError]:
    texts: list[str] = []
    async with a_pair(script, **options) as (_, generator), aclosing(generator.generate(PROMPT)) as tokens:
        try:
            async for token in tokens:
                texts.append(token.text)  # noqa: PERF401  what came before the failure counts
        except kind as error:
            return texts, error
    raise AssertionError(f"no {kind.__name__} was raised")


@pytest.mark.parametrize("form", list(Form))
async def test_the_first_token_is_the_first_that_says_something(form: Form) -> None:
    async with a_pair(Script(form=form)) as (_, generator):
        tokens = await all_of(generator)
    assert tokens[0].text == "Shoes"
    assert tokens[0].delta == {"content": "Shoes"}
    assert "".join(token.text for token in tokens) == "Shoes are kept in the blue box."
    assert [token.finish_reason for token in tokens if token.finish_reason] == ["stop"]


@pytest.mark.parametrize(("form", "name"), [(Form.VLLM, "reasoning"), (Form.LLAMA_CPP, "reasoning_content")])
async def test_reasoning_counts_as_a_first_token_and_is_no_text(form: Form, name: str) -> None:
    async with a_pair(Script(form=form, reasoning=("Hm", "."))) as (_, generator):
        tokens = await all_of(generator)
    assert tokens[0].delta == {name: "Hm"}
    assert tokens[0].text == ""


async def test_a_tool_call_counts_as_a_first_token() -> None:
    call = {"name": "look_up", "arguments": "{}"}
    async with a_pair(Script(words=(), tool_call=call)) as (_, generator):
        tokens = await all_of(generator)
    assert tokens[0].delta["tool_calls"] == [{"index": 0, "id": "call-1", "type": "function", "function": call}]
    assert tokens[0].finish_reason == "tool_calls"


async def test_an_answer_without_words_still_says_how_it_ended() -> None:
    async with a_pair(Script(words=())) as (_, generator):
        tokens = await all_of(generator)
    assert [token.finish_reason for token in tokens] == ["stop", None]
    assert tokens[-1].usage is not None


async def test_usage_is_the_upstreams_count_and_never_the_number_of_chunks() -> None:
    async with a_pair(Script(words_per_chunk=4)) as (_, generator):
        tokens = await all_of(generator)
    assert len([token for token in tokens if token.text]) == 2
    assert tokens[-1] == Token(usage=Usage(prompt=18, completion=8, cached=0))


async def test_what_the_upstream_had_cached_is_told() -> None:
    async with a_pair() as (_, generator):
        await all_of(generator)
        tokens = await all_of(generator)
    assert tokens[-1].usage == Usage(prompt=18, completion=8, cached=16)


async def test_several_choices_are_told_apart_by_index() -> None:
    async with a_pair() as (_, generator):
        tokens = await all_of(generator, replace(PROMPT, sampling={"n": 2}))
    for index in range(2):
        assert "".join(token.text for token in tokens if token.index == index) == "Shoes are kept in the blue box."


async def test_what_the_caller_asks_for_reaches_the_upstream_untouched() -> None:
    sampling = {
        "temperature": 0.2,
        "guided_json": {"type": "object"},
        "stream_options": {"continuous_usage_stats": True},
    }
    turn = Turn("user", "Look.", {"content": [{"type": "text", "text": "Look."}], "name": "Ada"})
    prompt = replace(PROMPT, sampling=sampling, messages=(turn,), request_id="r-1", priority=3)
    async with a_pair(priorities=True) as (upstream, generator):
        await all_of(generator, prompt)
        await all_of(generator)
    sent, plain = upstream.received
    assert sent.payload == {
        "temperature": 0.2,
        "guided_json": {"type": "object"},
        "model": "demo",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}], "name": "Ada"}],
        "stream": True,
        "stream_options": {"continuous_usage_stats": True, "include_usage": True},
        "priority": 3,
    }
    assert sent.headers["X-Request-Id"] == "r-1"
    assert "priority" not in plain.payload
    assert "X-Request-Id" not in plain.headers


async def test_a_server_that_does_not_schedule_by_priority_is_not_told_one() -> None:
    async with a_pair() as (upstream, generator):
        await all_of(generator, replace(PROMPT, priority=1))
    assert "priority" not in upstream.received[0].payload


async def test_the_key_is_sent_and_never_shown() -> None:
    async with a_pair(Script(api_key="secret"), api_key="secret") as (upstream, generator):
        await all_of(generator)
        assert upstream.received[0].headers["Authorization"] == "Bearer secret"
        assert "secret" not in repr(generator.options)
    _, error = await failing(Script(api_key="secret"), UpstreamFailed, api_key="wrong-key")
    assert "refused the API key of this service (401)" in str(error)
    assert "wrong-key" not in str(error)


async def test_answers_read_to_the_end_share_one_warm_connection() -> None:
    async with a_pair() as (upstream, generator):
        assert upstream.connections == 1
        for _ in range(3):
            await all_of(generator)
        assert upstream.connections == 1


@pytest.mark.parametrize("form", list(Form))
async def test_a_first_token_out_of_time_ends_the_upstreams_request(form: Form) -> None:
    async with a_pair(Script(form=form, before_first=inf)) as (upstream, generator):
        clock = Clock(Budget(total=0.2))
        with pytest.raises(OutOfTime):
            async with aclosing(generator.generate(PROMPT)) as tokens, clock.lap(Stage.FIRST_TOKEN):
                await anext(tokens)
        received = await asyncio.wait_for(upstream.nth(0), SOON)
        await asyncio.wait_for(received.left.wait(), SOON)
        assert generator.running == 0


async def test_too_long_a_prompt_is_the_callers_to_mend_in_the_upstreams_words() -> None:
    for form in Form:
        _, error = await failing(Script(form=form, max_model_len=5), InvalidInput)
        assert "maximum context length is 5 tokens; the prompt has 18." in str(error)
        assert "lower token_budget" in str(error)


async def test_an_unknown_model_is_named_and_the_log_is_told_where_it_was_looked_for() -> None:
    _, error = await failing(Script(model="other"), UpstreamFailed)
    assert "has no model 'demo'" in str(error)
    assert "/v1 answered 404: " in error.detail


async def test_a_full_server_tells_when_to_come_again() -> None:
    _, busy = await failing(Script(failure=Failure.BUSY), Overloaded)
    assert isinstance(busy, Overloaded)
    assert busy.retry_after == 7.0
    assert "127.0.0.1" not in str(busy)
    assert "127.0.0.1" in busy.detail
    _, limited = await failing(Script(failure=Failure.RATE_LIMITED), Overloaded)
    assert isinstance(limited, Overloaded)
    assert limited.retry_after is None


@pytest.mark.parametrize(
    ("failure", "words", "said", "detail"),
    [
        (Failure.BROKEN, 0, "answered 500 instead of a stream", "/v1 answered 500: EngineCore encountered an issue."),
        (Failure.NOT_A_STREAM, 0, "answered 200 instead of a stream", "/v1 answered 200: "),
        (Failure.DIES, 3, "broke in the middle of its answer", ""),
        (Failure.ERROR_EVENT, 3, "broke off its answer.", "EngineCore died."),
        (Failure.GARBAGE, 3, "no chat completion chunk", ""),
        (Failure.TRUNCATED, 3, "incomplete", ""),
    ],
)
async def test_a_broken_answer_gives_what_came_and_then_says_what_broke(
    failure: Failure, words: int, said: str, detail: str
) -> None:
    texts, error = await failing(Script(failure=failure, between=0.01), UpstreamFailed)
    assert texts == ["Shoes", " are", " kept"][:words]
    assert said in str(error)
    assert "127.0.0.1" not in str(error)
    assert detail in error.detail


async def test_silence_within_an_answer_is_bounded() -> None:
    texts, error = await failing(Script(failure=Failure.HANGS), UpstreamFailed, inter_token_timeout=0.1)
    assert texts == ["Shoes", " are", " kept"]
    assert "silent for 0.1 s" in str(error)


async def test_an_answer_that_ends_without_the_end_mark_is_whole_when_it_gave_a_finish_reason() -> None:
    async with a_pair(Script(done=False)) as (_, generator):
        assert (await all_of(generator))[-1].usage is not None


async def test_windows_line_ends_read_alike() -> None:
    async with a_pair(Script(newline="\r\n")) as (_, generator):
        assert len(await all_of(generator)) == 9


async def test_a_server_that_is_away_is_told_with_the_remedy_and_its_address_only_to_the_log() -> None:
    async with a_pair() as (upstream, generator):
        await upstream.stop()
        with pytest.raises(UpstreamFailed, match=r"cannot be reached\. Start it, or correct the address") as caught:
            await all_of(generator)
        assert upstream.url in caught.value.detail
        for told in (str(caught.value), str(await generator.check())):
            assert "cannot be reached" in told
            assert "127.0.0.1" not in told


async def test_a_pooled_connection_found_dead_is_replaced_once() -> None:
    async with a_pair(Script(failure=Failure.NO_ANSWER)) as (upstream, generator):
        with pytest.raises(UpstreamFailed):
            await all_of(generator)
        assert len(upstream.received) == 2
        with pytest.raises(UpstreamFailed):  # on a fresh connection, so the server itself is at fault
            await all_of(generator)
        assert len(upstream.received) == 3


async def test_an_answer_that_broke_off_is_never_asked_for_again() -> None:
    async with a_pair(Script(failure=Failure.DIES)) as (upstream, generator):
        with pytest.raises(UpstreamFailed):
            await all_of(generator)
        assert len(upstream.received) == 1


async def test_beyond_the_line_callers_are_refused_and_a_leaving_one_makes_room() -> None:
    async with a_pair(Script(before_first=inf), connections=1, line=1) as (upstream, generator):
        first = asyncio.ensure_future(all_of(generator))
        second = asyncio.ensure_future(all_of(generator))
        await asyncio.wait_for(upstream.nth(0), SOON)
        with pytest.raises(Overloaded, match="Try again later"):
            await all_of(generator)
        upstream.behave(before_first=0.0)
        first.cancel()
        assert len(await asyncio.wait_for(second, SOON)) == 9
        assert generator.running == 0
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_readiness_says_why_not() -> None:
    async with a_pair() as (upstream, generator):
        assert await generator.check() is None
        upstream.behave(model="other")
        assert "does not serve 'demo'; it serves: other." in str(await generator.check())


async def test_what_is_no_address_is_refused_at_start() -> None:
    with pytest.raises(Misconfigured, match="localhost:8000"):
        async with VllmGenerator.open(VllmOptions(base_url="localhost:8000", model="demo")):
            pass


async def test_a_field_that_is_not_json_is_the_callers_to_mend() -> None:
    async with a_pair() as (_, generator):
        with pytest.raises(InvalidInput, match="not JSON"):
            await all_of(generator, replace(PROMPT, sampling={"top_p": inf}))
