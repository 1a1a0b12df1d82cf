"""The passages' token ids: looked up where ingest has computed them with the same tokenizer, else made once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from pipeline.passages import Passage
from pipeline.ports import Shelf


class PassageTokens:
    """Token ids for the reranker. `capacity` bounds the passages remembered, the one used longest ago leaves first.

    Tokenising 50 passages takes about 35 ms, so ids from the shelf are worth having; where the shelf was made with
    another tokenizer, ids are remembered by content hash, which survives a new generation.
    """

    def __init__(self, tokenizer: str, encode: Callable[[str], list[int]], *, capacity: int = 4096) -> None:
        self._tokenizer = tokenizer
        self._encode = encode
        self._capacity = capacity
        self._known: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, shelf: Shelf, keys: Sequence[int], limit: int) -> list[tuple[int, ...]]:
        """The first `limit` ids of each passage, without special tokens."""
        if shelf.tokenizer == self._tokenizer:
            return [tuple(ids[:limit]) for ids in shelf.token_ids(keys)]
        return [self._encoded(passage)[:limit] for passage in shelf.passages(keys)]

    def _encoded(self, passage: Passage) -> tuple[int, ...]:
        with self._lock:
            known = self._known.get(passage.content_hash)
            if known is not None:
                self._known.move_to_end(passage.content_hash)
                return known
        made = tuple(self._encode(passage.embedded_text()))
        with self._lock:
            self._known[passage.content_hash] = made
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
        return made
