"""Shapes that several routes share: passages as they are shown, and what a request may ask of the stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from api.filters import FiltersIn
from api.limits import Limits
from pipeline.answering import Found
from pipeline.errors import InvalidInput, NotFound
from pipeline.load import BATCH, INTERACTIVE
from pipeline.passages import Aside, Caller, Cited, Leg, Passage, Scalar
from pipeline.profile import Expand, Fusion, Profile

MetadataOut = dict[str, Scalar | tuple[Scalar, ...]]


class ProblemOut(BaseModel):
    """What is wrong, where, and the remedy."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorOut(BaseModel):
    """Every error has OpenAI's envelope and a stable `code`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": {
                        "message": "There is no collection 'handbok'. Known: handbook, laws.",
                        "type": "not_found_error",
                        "param": "collection",
                        "code": "not_found",
                    }
                }
            ]
        }
    )

    error: ProblemOut


class HitOut(BaseModel):
    """Where one leg placed a passage: `rank` from 1, `score` on the leg's own scale."""

    rank: int
    score: float


class PassageOut(BaseModel):
    """A passage as it may be shown and cited. `joined` lists the ids whose texts make up `text`, if several."""

    number: int = Field(description="The number an answer cites it by, as [1].")
    id: str
    document_id: str
    text: str
    title: str
    heading: list[str]
    page: int | None
    source: str = Field(description="The document's own name: its path or URL.")
    language: str | None
    metadata: MetadataOut
    score: float = Field(description="Strictly decreasing within a result.")
    rerank_score: float | None = Field(description="Null where the reranker never saw it.")
    tokens: int
    legs: dict[Leg, HitOut]
    joined: list[str] = []
    parent: str | None = Field(default=None, description="The section that it was cut from.")
    previous: str | None = Field(default=None, description="The passage before all of `text` in its document.")
    next: str | None = Field(default=None, description="The passage behind it.")


Dropped = Annotated[
    dict[str, int],
    Field(
        description="How many ranked passages are not among these, by reason: duplicate, budget, top_k.",
        examples=[{"budget": 2, "duplicate": 1, "top_k": 40}],
    ),
]


class AsideOut(BaseModel):
    """Earlier text that joined the search at a lower weight."""

    text: str
    weight: float


class QueryOut(BaseModel):
    """What was searched for."""

    text: str
    asides: list[AsideOut] = []


class Asks(BaseModel):
    """Frozen, so that a default is shared: pydantic would copy it, and all within it, for every request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


class SearchIn(Asks):
    """How candidates are found; what is left out is as in the profile."""

    legs: Annotated[list[Leg], Field(min_length=1, max_length=2)] | None = None
    candidates: int | None = Field(default=None, ge=1, description="How deep each leg looks.")
    fusion: Fusion | None = None
    rrf_k: int | None = Field(default=None, ge=1)
    dense_weight: float | None = Field(default=None, ge=0, le=1)


class RerankIn(Asks):
    """How the fused order is improved."""

    depth: int | None = Field(default=None, ge=0, description="Candidates scored at most; 0 turns the stage off.")
    budget_ms: float | None = Field(
        default=None, ge=0, description="Time for scoring at most; its share of the deadline holds as well."
    )


class PackIn(Asks):
    """What of the ranking is returned."""

    similarity: float | None = Field(default=None, ge=0, le=2, description="Near-duplicates from this cosine on.")
    join_neighbours: bool | None = None
    expand: Expand | None = Field(
        default=None, description="What joins a hit as far as the budget goes: the passages beside it, or its section."
    )


PriorityIn = Annotated[
    Literal["interactive", "batch"] | StrictInt | None,
    Field(
        description="`batch` lets everybody interactive go first, in every line; or a number, of which lower ones are "
        "served first. The key's own is the most that a request gets: it may step back, never forward."
    ),
]


class AskedOfStages(Asks):
    """The part of a request that narrows what is found, or overrides single fields of its profile."""

    filters: FiltersIn = None
    top_k: int | None = Field(default=None, ge=1, description="Passages at most.")
    token_budget: int | None = Field(default=None, ge=1, description="Tokens of passages at most.")
    search: SearchIn = SearchIn()
    rerank: RerankIn = RerankIn()
    pack: PackIn = PackIn()


def overridden(profile: Profile, asked: AskedOfStages, limits: Limits) -> Profile:
    """The profile as this request wants it. Raises InvalidInput where it asks for more than the service gives."""
    if not asked.model_fields_set:
        return profile
    within("top_k", asked.top_k, limits.top_k)
    within("token_budget", asked.token_budget, limits.token_budget)
    within("search.candidates", asked.search.candidates, limits.candidates)
    within("rerank.depth", asked.rerank.depth, limits.depth)
    within("rerank.budget_ms", asked.rerank.budget_ms, limits.deadline * 1000)
    search, rerank, pack = _given(asked.search), _given(asked.rerank), _given(asked.pack)
    if (budget_ms := rerank.pop("budget_ms", None)) is not None:
        rerank["budget"] = budget_ms / 1000
    if asked.search.legs is not None:
        search["legs"] = tuple(dict.fromkeys(asked.search.legs))
    pack |= {name: value for name in ("top_k", "token_budget") if (value := getattr(asked, name)) is not None}
    return replace(
        profile,
        search=replace(profile.search, **search),
        rerank=replace(profile.rerank, **rerank),
        pack=replace(profile.pack, **pack),
    )


def stepped_back(caller: Caller, asked: Literal["interactive", "batch"] | int | None) -> Caller:
    """The caller with the priority that this request asks for, where that is behind its own."""
    number = {"interactive": INTERACTIVE, "batch": BATCH}.get(asked) if isinstance(asked, str) else asked
    return caller if number is None or number <= caller.priority else replace(caller, priority=number)


def within(field: str, asked: float | None, limit: float) -> None:
    """Raises InvalidInput when more is asked than the service's limit."""
    if asked is not None and asked > limit:
        raise InvalidInput(f"'{field}' is {asked:g}, and this service gives at most {limit:g}.", field=field)


def check_text(text: str, field: str) -> None:
    """Raises InvalidInput for half a surrogate pair: JSON can say it, and no file or index can hold it."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(f"'{field}' has half of a surrogate pair in it. Send valid Unicode.", field=field)


def promised(body_ms: float | None, header_ms: str | None, limit: float) -> float | None:
    """The deadline that was asked for, in seconds: of the body's and the header's the earlier; None for neither."""
    if header_ms is not None:
        try:
            from_header = float(header_ms)
        except ValueError:
            from_header = 0.0
        if not 0 < from_header < float("inf"):
            raise InvalidInput(
                f"'X-Request-Deadline-Ms' is '{header_ms}'; it must be a number of milliseconds above 0.",
                field="X-Request-Deadline-Ms",
            )
        within("X-Request-Deadline-Ms", from_header, limit * 1000)
        body_ms = from_header if body_ms is None else min(body_ms, from_header)
    within("deadline_ms", body_ms, limit * 1000)
    return None if body_ms is None else body_ms / 1000


def named_profile(profiles: Mapping[str, Profile], name: str) -> Profile:
    """Raises NotFound, naming the known."""
    if name not in profiles:
        raise NotFound("profile", name, sorted(profiles))
    return profiles[name]


def passages_out(found: Found) -> list[PassageOut]:
    """The packed passages, best first."""
    return [_passage(cited, _cited_passage(cited, found)) for cited in found.context.items]


def dropped_out(found: Found) -> dict[str, int]:
    """How many ranked passages were not returned, by reason."""
    return dict(sorted(Counter(each.reason for each in found.context.dropped).items()))


def query_out(text: str, asides: Sequence[Aside]) -> QueryOut:
    """The query as it was searched."""
    return QueryOut(text=text, asides=[AsideOut(text=aside.text, weight=aside.weight) for aside in asides])


def _cited_passage(cited: Cited, found: Found) -> Passage:
    if len(cited.passages) == 1:
        return cited.passages[0]
    return found.candidates.shelf.passages([cited.ranked.candidate.key])[0]


def _passage(cited: Cited, passage: Passage) -> PassageOut:
    ranked = cited.ranked
    return PassageOut(
        number=cited.number,
        id=passage.id,
        document_id=passage.document_id,
        text=cited.text,
        title=passage.title,
        heading=list(passage.heading),
        page=passage.page,
        source=passage.source,
        language=passage.language,
        metadata=dict(passage.metadata),
        score=ranked.score,
        rerank_score=ranked.rerank_score,
        tokens=cited.tokens,
        legs={hit.leg: HitOut(rank=hit.rank, score=hit.score) for hit in ranked.candidate.hits},
        joined=[part.id for part in cited.passages] if len(cited.passages) > 1 else [],
        parent=passage.parent or None,
        previous=cited.previous or None,
        next=cited.next or None,
    )


def _given(part: BaseModel) -> dict[str, Any]:
    return part.model_dump(exclude_none=True)
