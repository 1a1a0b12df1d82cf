"""From token ids to the input of a cross-encoder: query and passage in one sequence, the passage cut to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Pair:
    """One sequence as the model reads it: `ids` and `types` (segment numbers) are equally long."""

    ids: tuple[int, ...]
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """Where a model family puts its special tokens: `[CLS] q [SEP] d [SEP]`, `<s> q </s></s> d </s>`, and so on.

    `opening`, `middle` and `closing` are special tokens only; `types` are the segment numbers of opening, query,
    middle, passage and closing.
    """

    opening: tuple[int, ...]
    middle: tuple[int, ...]
    closing: tuple[int, ...]
    types: tuple[int, int, int, int, int]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> PairTemplate:
        """Reads the layout off a pair that the tokenizer itself has put together."""
        probe = tokenizer.encode("a", "b")
        first = [place for place, part in enumerate(probe.sequence_ids) if part == 0]
        second = [place for place, part in enumerate(probe.sequence_ids) if part == 1]
        ids, types = probe.ids, probe.type_ids
        opening, middle = ids[: first[0]], ids[first[-1] + 1 : second[0]]
        closing = ids[second[-1] + 1 :]
        return cls(
            opening=tuple(opening),
            middle=tuple(middle),
            closing=tuple(closing),
            types=(
                types[0] if opening else types[first[0]],
                types[first[0]],
                types[first[-1] + 1] if middle else types[second[0]],
                types[second[0]],
                types[second[-1] + 1] if closing else types[second[0]],
            ),
        )

    @property
    def special(self) -> int:
        """How many special tokens every pair carries."""
        return len(self.opening) + len(self.middle) + len(self.closing)

    def join(self, query: Sequence[int], passage: Sequence[int], limit: int) -> Pair:
        """Puts a pair together in at most `limit` tokens: the passage is cut at its end, the query never."""
        asked = tuple(query)
        kept = tuple(passage[: max(limit - self.special - len(asked), 0)])
        opening, first, middle, second, closing = self.types
        return Pair(
            ids=self.opening + asked + self.middle + kept + self.closing,
            types=(opening,) * len(self.opening)
            + (first,) * len(asked)
            + (middle,) * len(self.middle)
            + (second,) * len(kept)
            + (closing,) * len(self.closing),
        )
