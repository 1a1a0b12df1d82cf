"""A profile: what one request asks of each stage, named, so that it can be tuned and compared as one thing.

A request may override single fields; what results travels with its query. Settings of the service itself (threads,
paths, limits) are options beside the code that obeys them, and are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from pipeline.clock import Budget, Stage
from pipeline.passages import Leg


class Fusion(StrEnum):
    """How two ranked lists become one: by ranks (reciprocal rank fusion) or by scores scaled to 0..1."""

    RRF = "rrf"
    MIN_MAX = "min_max"


class Expand(StrEnum):
    """What joins a hit in the context: nothing, the passages beside it, or the section that it was cut from."""

    NONE = "none"
    NEIGHBOURS = "neighbours"
    PARENT = "parent"


@dataclass(frozen=True, slots=True)
class Search:
    """How candidates are found.

    `candidates` is the depth of each leg. `rrf_k` is the constant of Cormack, Clarke and Büttcher (SIGIR 2009), 60
    there. `dense_weight` is the dense leg's share in 0..1, the lexical leg has the rest; at .5 plain RRF.
    """

    legs: tuple[Leg, ...] = (Leg.LEXICAL, Leg.DENSE)
    candidates: int = 100
    fusion: Fusion = Fusion.RRF
    rrf_k: int = 60
    dense_weight: float = 0.5


@dataclass(frozen=True, slots=True)
class Rerank:
    """How the fused order is improved: `depth` candidates at most are scored, 0 for none, in `budget` seconds at most.

    Of the budget and the stage's share of the deadline the smaller holds.
    """

    depth: int = 50
    budget: float = inf


@dataclass(frozen=True, slots=True)
class Pack:
    """What of the ranking reaches the prompt.

    `top_k` passages at most, `token_budget` tokens at most. `similarity` is the cosine from which two passages that
    share most of their words count as near-duplicates; 1 removes only exact ones, above 1 none. What `expand` brings in
    is not counted by `top_k`, and comes only where the budget is not used up by hits.
    """

    top_k: int = 8
    token_budget: int = 1500
    similarity: float = 0.9
    join_neighbours: bool = True
    expand: Expand = Expand.NONE


SHARES: Mapping[Stage, float] = {
    Stage.ADMIT: 0.1,
    Stage.CACHE: 0.05,
    Stage.FILTER: 0.5,
    Stage.LEXICAL: 0.6,
    Stage.ENCODE: 0.4,
    Stage.DENSE: 0.2,
    Stage.RERANK: 0.25,
    Stage.DUPLICATES: 0.25,
    Stage.SIZES: 0.25,
}
"""Admission, a look into the cache, then encoding and dense search beside lexical search, then three side by side: all
of a deadline if each is cut; the reserve comes off the last. A filter seen before takes no time, and without its mask
nothing may be searched, so a new one may take half of a deadline."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept of a deadline for what cannot be cut: `seconds` and a `part` of it, together `most` of it at most.

    Measured with one caller on two cores that others used too: fusing and packing 1.2 ms (p99 7), the answer 0.6 (p99
    9), and a cut is noticed 0.6 ms late (p95 7), as a computing thread keeps the interpreter lock for up to 5. A
    deadline that is short beside that is not given up as a whole: it gets most of its time for a quick leg.
    """

    seconds: float = 0.01
    part: float = 0.02
    most: float = 0.25

    def of(self, deadline: float) -> float:
        """Seconds kept of so many; nothing where there is no deadline."""
        return 0.0 if deadline == inf else min(self.seconds + self.part * deadline, self.most * deadline)


@dataclass(frozen=True, slots=True)
class Profile:
    """One named way to answer.

    `shares` are parts of the deadline, each above 0 and at most 1: the most that a stage may use. Stages that run at
    the same time share the same time; one that is missing may use all that is left.
    """

    name: str = "default"
    search: Search = Search()
    rerank: Rerank = Rerank()
    pack: Pack = Pack()
    deadline: float = 1.0
    shares: Mapping[Stage, float] = field(default_factory=lambda: SHARES)
    reserve: Reserve = Reserve()

    def budget(self, deadline: float) -> Budget:
        """A deadline of so many seconds, split over the stages."""
        seconds = {stage: part * deadline for stage, part in self.shares.items()}
        seconds[Stage.RERANK] = min(seconds.get(Stage.RERANK, inf), self.rerank.budget)
        return Budget(deadline, seconds, self.reserve.of(deadline))
