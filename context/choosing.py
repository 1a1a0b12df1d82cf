"""Which ranked passages deserve a place: by rank, group, count and size, before a single text is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.passages import Dropped, Ranked, Ranking


@dataclass(frozen=True, slots=True)
class Room:
    """What there is room for: `passages` at most, and `tokens` at most, of which each passage costs `each` on top."""

    passages: int
    tokens: int
    each: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen in ranked order, the rest with reasons; `over` tells that the only one chosen is over the budget."""

    chosen: tuple[Ranked, ...]
    dropped: tuple[Dropped, ...]
    over: bool = False


def choose(ranking: Ranking, groups: Mapping[int, int], tokens: Mapping[int, int], room: Room) -> Choice:
    """Walks down the ranking and takes what fits.

    A passage that does not fit is passed over, and smaller ones behind it may still fit: ending there would leave the
    budget unused because of one long passage, cutting it would leave a text that nobody wrote. Of a group the best
    ranked that fits is kept. The budget holds with one exception: when not a single passage fits, the best ranked
    comes whole and alone, since an answer from one source too many tokens long beats an answer from none.
    """
    chosen: list[Ranked] = []
    dropped: list[Dropped] = []
    kept: dict[int, int] = {}
    left = room.tokens
    for ranked in ranking.items:
        key = ranked.candidate.key
        group = groups.get(key, key)
        cost = tokens[key] + room.each
        if group in kept:
            dropped.append(Dropped(key, "duplicate", kept[group]))
        elif len(chosen) >= room.passages:
            dropped.append(Dropped(key, "top_k"))
        elif cost > left:
            dropped.append(Dropped(key, "budget"))
        else:
            chosen.append(ranked)
            kept[group] = key
            left -= cost
    if chosen or not ranking.items or room.passages < 1:
        return Choice(tuple(chosen), tuple(dropped))
    best = ranking.items[0]
    return Choice((best,), _beside(best.candidate.key, ranking, groups), over=True)


def _beside(best: int, ranking: Ranking, groups: Mapping[int, int]) -> tuple[Dropped, ...]:
    others = [ranked.candidate.key for ranked in ranking.items[1:]]
    same = groups.get(best, best)
    return tuple(
        Dropped(key, "duplicate", best) if groups.get(key, key) == same else Dropped(key, "budget") for key in others
    )
