"""A profile: what one request asks of each stage, named, so that it can be tuned and compared as one thing.

A request may override single fields; what results travels with its query. Settings of the service itself (threads,
paths, limits) are options beside the code that obeys them, and are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pipeline.passages import Leg

if TYPE_CHECKING:
    from pipeline.clock import Stage


class Fusion(StrEnum):
    """How two ranked lists become one: by ranks (reciprocal rank fusion) or by scores scaled to 0..1."""

    RRF = "rrf"
    MIN_MAX = "min_max"


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
    """How the fused order is improved: `depth` candidates at most are scored, 0 for none."""

    depth: int = 50


@dataclass(frozen=True, slots=True)
class Pack:
    """What of the ranking reaches the prompt.

    `top_k` passages at most, `token_budget` tokens at most. `similarity` is the cosine from which two passages that
    share most of their words count as near-duplicates; 1 removes only exact ones, above 1 none.
    """

    top_k: int = 8
    token_budget: int = 1500
    similarity: float = 0.9
    join_neighbours: bool = True


@dataclass(frozen=True, slots=True)
class Profile:
    """One named way to answer. `shares` caps stages, in seconds; one that is missing may use what is left."""

    name: str = "default"
    search: Search = Search()
    rerank: Rerank = Rerank()
    pack: Pack = Pack()
    deadline: float = 1.0
    shares: Mapping[Stage, float] = field(default_factory=dict["Stage", float])
