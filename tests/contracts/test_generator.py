"""What every generator promises, over the vLLM client (against both kinds of server) and the extractive one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from math import inf

import pytest

from generate.extractive import ExtractiveGenerator
from generate.vllm import VllmGenerator, VllmOptions
from pipeline.passages import Token
from pipeline.ports import Generator
from tests.prompts import context_of, prompt_of
from tests.upstream import FakeUpstream, Form, Script

PROMPT = prompt_of("Where are shoes kept?", context_of("Shoes are kept in the blue box by the door. Doors are green."))
SOON = 5.0  # seconds: a bound that keeps a broken test from hanging, nothing that is measured


@dataclass(frozen=True)
class Bench:
    """A generator, and the server behind it if it has one."""

    generator: Generator
    upstream: FakeUpstream | None = None


@pytest.fixture(params=["vllm", "llama.cpp", "extractive"])
async def bench(request: pytest.FixtureRequest) -> AsyncGenerator[Bench, None]:
    if request.param == "extractive":
        yield Bench(ExtractiveGenerator())
        return
    async with (
        FakeUpstream(Script(form=Form(request.param))) as upstream,
        VllmGenerator.open(VllmOptions(base_url=upstream.url, model="demo")) as generator,
    ):
        yield Bench(generator, upstream)


async def all_of(generator: Generator) -> list[Token]:
    async with aclosing(generator.generate(PROMPT)) as tokens:
        return [token async for token in tokens]


def with_server(bench: Bench) -> FakeUpstream:
    if bench.upstream is None:
        pytest.skip("this generator has no server that could go on computing")
    return bench.upstream


async def test_the_first_token_says_something(bench: Bench) -> None:
    first = (await all_of(bench.generator))[0]
    assert first.text
    assert first.delta["content"] == first.text


async def test_no_delta_carries_a_role(bench: Bench) -> None:
    assert all("role" not in token.delta for token in await all_of(bench.generator))


async def test_the_text_is_what_the_deltas_say(bench: Bench) -> None:
    tokens = await all_of(bench.generator)
    assert "blue box" in "".join(token.text for token in tokens)
    assert [token.text for token in tokens] == [token.delta.get("content", "") for token in tokens]


async def test_an_answer_ends_with_one_reason(bench: Bench) -> None:
    tokens = await all_of(bench.generator)
    assert [token.finish_reason for token in tokens if token.finish_reason] == ["stop"]


async def test_many_answers_at_once_do_not_mix(bench: Bench) -> None:
    alone = await all_of(bench.generator)
    together = await asyncio.gather(*(all_of(bench.generator) for _ in range(8)))
    texts = {"".join(token.text for token in tokens) for tokens in together}
    assert texts == {"".join(token.text for token in alone)}


async def test_a_generator_may_be_closed_before_it_began(bench: Bench) -> None:
    await bench.generator.generate(PROMPT).aclose()


async def test_a_generator_may_be_closed_among_its_tokens(bench: Bench) -> None:
    tokens = bench.generator.generate(PROMPT)
    await anext(tokens)
    await tokens.aclose()
    assert [token async for token in tokens] == []


async def test_an_answer_read_to_its_end_gives_its_connection_back(bench: Bench) -> None:
    upstream = with_server(bench)
    for _ in range(3):
        await all_of(bench.generator)
    assert upstream.connections == 1


async def test_leaving_in_prefill_ends_the_servers_work(bench: Bench) -> None:
    upstream = with_server(bench)
    upstream.behave(before_first=inf)
    reading = asyncio.ensure_future(all_of(bench.generator))
    received = await asyncio.wait_for(upstream.nth(0), SOON)
    await asyncio.wait_for(received.begun.wait(), SOON)
    reading.cancel()
    await asyncio.wait_for(received.left.wait(), SOON)
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(received.finished.wait(), SOON)
    assert upstream.running == 0


async def test_closing_among_the_tokens_ends_the_servers_work(bench: Bench) -> None:
    upstream = with_server(bench)
    upstream.behave(between=inf)
    async with aclosing(bench.generator.generate(PROMPT)) as tokens:
        await anext(tokens)
    received = await asyncio.wait_for(upstream.nth(0), SOON)
    await asyncio.wait_for(received.left.wait(), SOON)
    await asyncio.wait_for(received.finished.wait(), SOON)
    assert upstream.running == 0


async def test_cancelling_among_the_tokens_ends_the_servers_work(bench: Bench) -> None:
    upstream = with_server(bench)
    upstream.behave(between=inf)
    reading = asyncio.ensure_future(all_of(bench.generator))
    received = await asyncio.wait_for(upstream.nth(0), SOON)
    await asyncio.wait_for(received.speaking.wait(), SOON)
    reading.cancel()
    await asyncio.wait_for(received.left.wait(), SOON)
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_a_connection_that_was_left_is_never_used_again(bench: Bench) -> None:
    upstream = with_server(bench)
    upstream.behave(between=inf)
    async with aclosing(bench.generator.generate(PROMPT)) as tokens:
        await anext(tokens)
    upstream.behave(between=0.0)
    await all_of(bench.generator)
    left, after = upstream.received
    assert left.connection != after.connection
