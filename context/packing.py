"""What of a ranking reaches the prompt: numbered sources, best first, within a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from context.choosing import Choice, Room, choose
from context.expanding import expanded
from context.joining import Joined, join_neighbours
from pipeline.clock import Stage
from pipeline.passages import (
    Candidates,
    Cited,
    Context,
    Degraded,
    Groups,
    Passage,
    Query,
    Ranked,
    Ranking,
    Sizes,
)
from pipeline.ports import Shelf


@dataclass(frozen=True, slots=True)
class PackOptions:
    """`header_tokens` is what a source costs beside its text: number, title, heading, page and the marks around it."""

    header_tokens: int = 16


class BudgetPacker:
    """Takes passages in ranked order (`context/choosing.py`), joins neighbours and numbers the sources from 1.

    Only the chosen are read from the shelf, in one look-up, and what joins them (`context/expanding.py`). Joining
    happens after choosing, so the headers that it saves are not spent again: `Context.tokens` may stay a little below
    the budget, never above.
    """

    def __init__(self, options: PackOptions | None = None) -> None:
        self._options = options or PackOptions()

    def pack(self, query: Query, candidates: Candidates, ranking: Ranking, groups: Groups, sizes: Sizes) -> Context:
        wanted = query.profile.pack
        room = Room(wanted.top_k, wanted.token_budget, self._options.header_tokens)
        shelf = candidates.shelf
        tokens = _all_sizes(ranking, sizes, shelf)
        if groups.degraded and wanted.similarity <= 1:
            choice, passages = _choose_by_hash(ranking, tokens, room, shelf)
        else:
            choice = choose(ranking, groups.of, tokens, room)
            passages = _read(choice.chosen, shelf, {})
        sources = [Joined.alone(ranked, passages[ranked.candidate.key]) for ranked in choice.chosen]
        spent = sum(tokens[ranked.candidate.key] + room.each for ranked in choice.chosen)
        sources = expanded(sources, wanted.expand, shelf, room.tokens - spent)
        if wanted.join_neighbours:
            sources = join_neighbours(sources)
        items = self._numbered(sources, shelf)
        inside = {key for source in sources for key in source.keys}
        return Context(
            items=items,
            tokens=sum(cited.tokens for cited in items),
            dropped=tuple(each for each in choice.dropped if each.key not in inside),
            generation=shelf.generation,
            degraded=(
                *candidates.degraded,
                *ranking.degraded,
                *groups.degraded,
                *sizes.degraded,
                *_over_budget(ranking, choice, tokens, room),
            ),
        )

    def _numbered(self, sources: Sequence[Joined], shelf: Shelf) -> tuple[Cited, ...]:
        beside = shelf.neighbours([source.keys[-1] for source in sources])
        return tuple(
            Cited(
                number,
                source.ranked,
                source.passages,
                source.text,
                source.tokens + self._options.header_tokens,
                previous=_id(source.passages[0], -1) if source.passages[0].ordinal else "",
                next="" if around.next is None else _id(source.passages[-1], 1),
            )
            for number, (source, around) in enumerate(zip(sources, beside, strict=True), start=1)
        )


def _id(passage: Passage, further: int) -> str:
    return f"{passage.document_id}:{passage.ordinal + further}"


def _all_sizes(ranking: Ranking, sizes: Sizes, shelf: Shelf) -> Mapping[int, int]:
    missing = [ranked.candidate.key for ranked in ranking.items if ranked.candidate.key not in sizes.tokens]
    return {**sizes.tokens, **dict(zip(missing, shelf.tokens(missing), strict=True))} if missing else sizes.tokens


def _choose_by_hash(
    ranking: Ranking, tokens: Mapping[int, int], room: Room, shelf: Shelf
) -> tuple[Choice, dict[int, Passage]]:
    """Chooses without groups: exact duplicates show when the chosen are read, and each round drops at least one."""
    groups: dict[int, int] = {}
    passages: dict[int, Passage] = {}
    while True:
        choice = choose(ranking, groups, tokens, room)
        passages = _read(choice.chosen, shelf, passages)
        first: dict[str, int] = {}
        repeats = dict(groups)
        for ranked in choice.chosen:
            key = ranked.candidate.key
            repeats[key] = first.setdefault(passages[key].content_hash, key)
        if all(repeats[ranked.candidate.key] == ranked.candidate.key for ranked in choice.chosen):
            return choice, passages
        groups = repeats


def _read(chosen: Sequence[Ranked], shelf: Shelf, known: Mapping[int, Passage]) -> dict[int, Passage]:
    keys = [ranked.candidate.key for ranked in chosen if ranked.candidate.key not in known]
    return {**known, **dict(zip(keys, shelf.passages(keys), strict=True))}


def _over_budget(ranking: Ranking, choice: Choice, tokens: Mapping[int, int], room: Room) -> tuple[Degraded, ...]:
    """Says so when the best passage is too long: it came alone over the budget, or others came in its place."""
    if not ranking.items or room.passages < 1:
        return ()
    best = ranking.items[0].candidate.key
    needs = tokens[best] + room.each
    if needs <= room.tokens:
        return ()
    came = "it came whole and alone" if choice.over else "shorter ones came in its place"
    return (Degraded(Stage.PACK, "budget", f"the best passage takes {needs} of {room.tokens} tokens; {came}"),)
