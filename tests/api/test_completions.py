"""Deltas become messages again."""

from __future__ import annotations

import json
from typing import Any

from api.completions import Completion, ExtensionOut
from api.timings import TimingsOut
from api.wire import QueryOut
from pipeline.passages import Token, Usage

EXTENSION = ExtensionOut(
    request_id="r",
    query=QueryOut(text="q"),
    generation="c@1",
    profile="default",
    passages=[],
    dropped={},
    citations=[],
    timings=TimingsOut(total_ms=1.0, laps=[]),
    degraded=[],
)


def whole(*tokens: Token, cut: bool = False) -> dict[str, Any]:
    """The complete answer of some tokens."""
    completion = Completion("r", "handbook")
    for token in tokens:
        completion.add(token)
    answer: dict[str, Any] = json.loads(completion.whole(EXTENSION, cut=cut))
    return answer


def test_tool_calls_that_come_in_pieces_are_joined_by_their_index() -> None:
    pieces = [
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
    ]
    (choice,) = whole(*(Token(delta=piece) for piece in pieces), Token(finish_reason="tool_calls"))["choices"]
    assert choice["message"]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert choice["finish_reason"] == "tool_calls"


def test_reasoning_and_text_grow_apart_and_choices_too() -> None:
    answer = whole(
        Token(delta={"reasoning": "Hm"}),
        Token(delta={"reasoning": "m."}),
        Token("One", {"content": "One"}),
        Token("Uno", {"content": "Uno"}, index=1),
        Token(".", {"content": "."}, finish_reason="stop"),
        Token(index=1, finish_reason="length"),
        Token(usage=Usage(3, 4)),
    )
    assert [choice["message"] for choice in answer["choices"]] == [
        {"role": "assistant", "content": "One.", "reasoning": "Hmm."},
        {"role": "assistant", "content": "Uno"},
    ]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "length"]
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_logprobs_are_gathered() -> None:
    (choice,) = whole(
        Token("a", {"content": "a"}, logprobs={"content": [{"token": "a", "logprob": -1.0}]}),
        Token("b", {"content": "b"}, logprobs={"content": [{"token": "b", "logprob": -2.0}]}),
    )["choices"]
    assert [piece["token"] for piece in choice["logprobs"]["content"]] == ["a", "b"]


def test_an_empty_answer_is_an_answer_and_one_cut_short_says_so() -> None:
    assert whole()["choices"][0]["message"] == {"role": "assistant", "content": ""}
    assert whole(Token("a", {"content": "a"}), cut=True)["choices"][0]["finish_reason"] == "length"
    completion = Completion("r", "handbook")
    (only,) = completion.ends(EXTENSION, cut=False)
    assert json.loads(only)["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_half_a_character_is_passed_on_as_it_came() -> None:
    completion = Completion("r", "handbook")
    chunk = json.loads(completion.add(Token("\ud83d", {"content": "\ud83d"})) or b"")
    assert chunk["choices"][0]["delta"]["content"] == "\ud83d"
    assert json.loads(completion.whole(EXTENSION, cut=False))["choices"][0]["message"]["content"] == "\ud83d"


def test_only_the_first_chunk_of_a_choice_has_a_role() -> None:
    completion = Completion("r", "handbook", include_usage=True)
    first, second = (json.loads(completion.add(Token(word, {"content": word})) or b"") for word in ("a", "b"))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    assert second["choices"][0]["delta"] == {"content": "b"}
    assert first["usage"] is None
    assert completion.add(Token(usage=Usage(1, 2))) is None
    assert json.loads(completion.usage_chunk())["choices"] == []


def test_text_as_the_upstream_wrote_it_is_passed_on_and_kept_in_its_place() -> None:
    completion = Completion("r", "handbook")
    tokens = [
        Token("a", {"content": "a"}, raw=b'"a"'),
        Token("\u00e9\n", {"content": "\u00e9\n"}, raw=b'"\\u00e9\\n"'),
        Token("b", {"content": "b"}, index=1, raw=b'"b"'),
        Token(" c", {"content": " c", "reasoning": "r"}),
        Token("d", {"content": "d"}, raw=b'"d"'),
    ]
    chunks = [completion.add(token) or b"" for token in tokens]
    assert b'{"content":"\\u00e9\\n"}' in chunks[1]
    deltas = [json.loads(chunk)["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": "a"}
    assert deltas[2] == {"role": "assistant", "content": "b"}
    assert [{k: v for k, v in delta.items() if k != "role"} for delta in deltas] == [token.delta for token in tokens]
    assert completion.text == "a\u00e9\n cd\nb"
    answer = json.loads(completion.whole(EXTENSION, cut=False))
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["a\u00e9\n cd", "b"]
