"""Chunks that are compared and not parsed: the tokens are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generate.alike import Alike
from generate.chunks import tokens_of
from pipeline.passages import Token

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "demo"}


def chunk(delta: dict[str, Any], *, index: int = 0, **more: Any) -> dict[str, Any]:
    """One chunk with one choice, in vLLM's order."""
    return {**HEAD, "choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": None, **more}]}


def read(alike: Alike, data: bytes) -> tuple[list[Token], bool]:
    """The tokens of a chunk, and whether they were had without parsing."""
    if (token := alike.token(data)) is not None:
        return [token], True
    parsed = list(tokens_of(json.loads(data)))
    if len(parsed) == 1:
        alike.learn(data, parsed[0])
    return parsed, False


def taught(data: bytes) -> Alike:
    alike = Alike()
    read(alike, data)
    return alike


def test_after_one_chunk_with_text_the_next_is_compared() -> None:
    alike = taught(json.dumps(chunk({"content": "One"})).encode())
    tokens, compared = read(alike, json.dumps(chunk({"content": ' "two"\n'})).encode())
    assert compared
    assert tokens == [Token(' "two"\n', {"content": ' "two"\n'})]
    assert tokens[0].raw == b'" \\"two\\"\\n"'


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@given(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=2, max_size=8))
def test_any_text_reads_as_if_it_had_been_parsed(
    ascii_only: bool, separators: tuple[str, str], texts: list[str]
) -> None:
    alike = Alike()
    for text in texts:
        data = json.dumps(chunk({"content": text}), ensure_ascii=ascii_only, separators=separators).encode()
        tokens, _ = read(alike, data)
        assert tokens == list(tokens_of(json.loads(data)))
        for token in tokens:
            assert not token.raw or json.loads(token.raw) == token.text


@pytest.mark.parametrize(
    "other",
    [
        chunk({"content": "a"}, finish_reason="stop"),
        chunk({"content": "a"}, logprobs={"content": [{"token": "a", "logprob": -1.0}]}),
        chunk({"content": "a", "reasoning": "b"}),
        chunk({"reasoning": "content"}),
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": ""}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"content": "x"}'}}]}),
        {**chunk({"content": "a"}), "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        {"error": {"message": "out of memory", "content": "x"}},
    ],
)
def test_what_is_more_than_text_is_parsed_and_teaches_nothing(other: dict[str, Any]) -> None:
    alike = taught(json.dumps(chunk({"content": "One"})).encode())
    assert alike.token(json.dumps(other).encode()) is None
    if "error" not in other:
        assert not read(taught(json.dumps(other).encode()), json.dumps(other).encode())[1]


@pytest.mark.parametrize(
    "raw", [b'"a"b"', b'"a', b'a"', b"12", b'"a\tb"', b'"\\"', b'"\xff"', b'"a","finish_reason":"x"']
)
def test_bytes_that_are_not_one_string_are_left_to_the_parser(raw: bytes) -> None:
    data = json.dumps(chunk({"content": "One"})).encode()
    assert taught(data).token(data.replace(b'"One"', raw)) is None


def test_the_choices_of_an_answer_are_told_apart() -> None:
    alike = Alike()
    for round_ in range(3):
        for index in range(3):
            tokens, compared = read(alike, json.dumps(chunk({"content": "word"}, index=index)).encode())
            assert tokens == [Token("word", {"content": "word"}, index)]
            assert compared == (round_ > 0)


def test_a_server_whose_chunks_always_differ_is_soon_only_parsed() -> None:
    alike = Alike()
    for number in range(50):
        data = json.dumps({**chunk({"content": "word"}), "created": number}).encode()
        assert not read(alike, data)[1]
    again = json.dumps({**chunk({"content": "word"}), "created": 49}).encode()
    assert not read(alike, again)[1]


def test_text_that_stands_elsewhere_too_is_not_mistaken_for_the_answer() -> None:
    data = json.dumps({"note": {"content": "One"}, **chunk({"content": "One"})}).encode()
    assert not read(taught(data), data)[1]
