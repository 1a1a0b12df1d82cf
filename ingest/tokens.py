"""Counting in the embedder's tokens."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer

from pipeline.errors import Misconfigured


class TokenCounter:
    """Counts without special tokens. `fingerprint` is the sha256 of the tokenizer's file, its first 16 hex digits."""

    def __init__(self, tokenizer: Tokenizer, fingerprint: str) -> None:
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint

    @classmethod
    def open(cls, path: Path) -> TokenCounter:
        """Reads a `tokenizer.json`. Truncation and padding stored in it are switched off: they would hide length."""
        try:
            content = path.read_bytes()
            tokenizer = Tokenizer.from_str(content.decode("utf-8"))
        except Exception as error:  # tokenizers raises bare Exception
            raise Misconfigured(
                f"The tokenizer '{path}' cannot be read: {error}. Name the tokenizer.json of the embedding model."
            ) from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, sha256(content).hexdigest()[:16])

    def count(self, text: str) -> int:
        """Tokens of a text, special ones not counted."""
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def starts(self, text: str) -> list[int]:
        """For each token of a text where it begins, in characters."""
        return [start for start, _ in self.tokenizer.encode(text, add_special_tokens=False).offsets]

    def ends(self, text: str) -> list[int]:
        """For each token of a text where it ends, in characters."""
        return [end for _, end in self.tokenizer.encode(text, add_special_tokens=False).offsets]
