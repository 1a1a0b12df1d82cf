"""Chunks of one answer differ in little but their text, so most of them need not be parsed: bytes are compared.

The first chunk that carries nothing but text is parsed, and becomes a pattern: its bytes before and after the text. A
later chunk with the same beginning and end is the same chunk with another text. What does not fit exactly (a role, a
`finish_reason`, logprobs, tool calls, a usage count, a field nobody knows) is parsed. (A chunk of vLLM's: a quarter of
the time that parsing it takes.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generate.chunks import tokens_of
from pipeline.passages import Token

CONTENT = re.compile(rb'"content"\s*:\s*(?=")')
PROBE = "?"
QUOTE, BACKSLASH = b'"', b"\\"
PATTERNS = 4  # kept at a time: one for each choice of an answer with several
FRUITLESS = 8  # patterns after each other that no later chunk fitted; then every chunk is parsed


@dataclass(slots=True)
class Pattern:
    """What stands before and after the text's JSON string in chunks of choice `index`; both without the quotes."""

    before: bytes
    after: bytes
    index: int

    def token(self, data: bytes) -> Token | None:
        """The token of a chunk that fits; None for one that does not."""
        begins, ends = len(self.before), len(data) - len(self.after)
        if ends - begins < 3 or not data.startswith(self.before) or not data.endswith(self.after):
            return None
        raw = data[begins:ends]
        text = string_of(raw)
        return Token(text, {"content": text}, self.index, raw=raw) if text else None


class Alike:
    """The patterns of one answer."""

    def __init__(self) -> None:
        self._patterns: list[Pattern] = []
        self._fruitless = 0

    def token(self, data: bytes) -> Token | None:
        """The token of a chunk like one before; None where it has to be parsed."""
        for pattern in self._patterns:
            token = pattern.token(data)
            if token is not None:
                self._fruitless = 0
                return token
        return None

    def learn(self, data: bytes, token: Token) -> None:
        """Keeps a parsed chunk's pattern, where it carries nothing but text."""
        if self._fruitless >= FRUITLESS or not says_only_text(token):
            return
        self._fruitless += 1
        found = pattern_of(data, token.index)
        if found is not None:
            self._patterns = [found, *self._patterns[: PATTERNS - 1]]


def says_only_text(token: Token) -> bool:
    """Whether there is nothing in a token but its text."""
    return (
        token.finish_reason is None
        and token.usage is None
        and token.logprobs is None
        and set(token.delta) == {"content"}
    )


def pattern_of(data: bytes, index: int) -> Pattern | None:
    """The pattern of a chunk; None where it cannot be told for certain which of its strings is the text.

    It is certain when the chunk with another text in that place parses to the token with that text.
    """
    found = CONTENT.search(data)
    if found is None:
        return None
    before = data[: found.end()]
    try:
        _, length = json.JSONDecoder().raw_decode(data[found.end() :].decode())
        after = data[found.end() :].decode()[length:].encode()
        probed: Mapping[str, Any] = json.loads(before + json.dumps(PROBE).encode() + after)
        (token,) = tokens_of(probed)
    except ValueError:
        return None
    return Pattern(before, after, index) if token == Token(PROBE, {"content": PROBE}, index) else None


def string_of(raw: bytes) -> str | None:
    """What a JSON string says, if these bytes are one from its first quote to its last; None if they are not."""
    if not raw.startswith(QUOTE) or not raw.endswith(QUOTE):
        return None
    try:
        if BACKSLASH not in raw and raw.count(QUOTE) == 2 and (text := raw[1:-1].decode()).isprintable():
            return text
        said: object = json.loads(raw)
    except ValueError:
        return None
    return said if isinstance(said, str) else None
