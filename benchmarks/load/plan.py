"""What a run will do, all of it: what is asked, how often, for how long, from which seed. Two runs of one plan send
the same requests at the same instants."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from benchmarks.load.arrivals import poisson, warm_up_for, warm_up_of
from benchmarks.load.queries import Zipf, fingerprint, in_order
from pipeline.errors import InvalidInput

FILLER = "You answer from the passages alone, briefly and in the language of the question, and you cite what you use."


class Kind(StrEnum):
    """Which endpoint is asked: /v1/retrieve, or /v1/chat/completions, streamed."""

    RETRIEVE = "retrieve"
    CHAT = "chat"


@dataclass(frozen=True, slots=True)
class Ask:
    """What every request asks, its query apart.

    `deadline_ms` bounds the answer of a retrieval and the first token of a chat. `context_tokens` is the budget of
    passages, `system_words` the length of a system message that is the same in every chat, `answer_tokens` what the
    model may say at most. `priority` is `interactive` or `batch`. `fields` are sent as they are, over everything else.
    """

    kind: Kind = Kind.RETRIEVE
    collection: str = "default"
    profile: str | None = None
    deadline_ms: float | None = 250.0
    top_k: int | None = None
    context_tokens: int | None = None
    system_words: int = 0
    answer_tokens: int | None = None
    priority: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def path(self) -> str:
        """Where it is sent."""
        return "/v1/retrieve" if self.kind is Kind.RETRIEVE else "/v1/chat/completions"

    def body(self, query: str) -> bytes:
        """The JSON that is sent for a query."""
        of_stages = {"top_k": self.top_k, "token_budget": self.context_tokens}
        sized = {name: value for name, value in of_stages.items() if value is not None}
        body: dict[str, Any] = {"deadline_ms": self.deadline_ms, "priority": self.priority}
        if self.kind is Kind.RETRIEVE:
            body |= {"query": query, "collection": self.collection, "profile": self.profile, **sized}
        else:
            body |= {
                "model": f"{self.collection}@{self.profile}" if self.profile else self.collection,
                "messages": [*self._system(), {"role": "user", "content": query}],
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": self.answer_tokens,
                "retrieval": sized or None,
            }
        body = {name: value for name, value in body.items() if value is not None}
        return json.dumps({**body, **self.fields}, ensure_ascii=False).encode()

    def _system(self) -> list[dict[str, str]]:
        words = FILLER.split()
        said = (words * (self.system_words // len(words) + 1))[: self.system_words]
        return [{"role": "system", "content": " ".join(said)}] if said else []


@dataclass(frozen=True, slots=True)
class Pace:
    """How often requests are sent.

    With `rate` alone the loop is open: requests leave as they are scheduled, whatever became of those before. With
    `callers` it is closed: each caller waits for its answer before it asks again, at once or, with a rate, no sooner
    than its share of the rate says.
    """

    rate: float | None = 20.0
    callers: int | None = None

    @property
    def closed(self) -> bool:
        """Whether a slow service is sent fewer requests."""
        return self.callers is not None

    @property
    def interval(self) -> float | None:
        """Seconds between two requests of one caller, where a closed loop has a rate; else None."""
        return self.callers / self.rate if self.callers is not None and self.rate is not None else None


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Zipf's `exponent` None asks the queries in their order, each once before any comes again.

    `warm_up` seconds, or `warm_up_requests` where that is not 0, are sent alike before and are not counted.
    `connections` are opened before the first request; more are opened when they are needed. After `patience` seconds
    without an end a request counts as unanswered. `told` are factors that only the caller knows of, by name.
    """

    queries: tuple[str, ...]
    ask: Ask = Ask()
    pace: Pace = Pace()
    seconds: float = 30.0
    warm_up: float = 5.0
    warm_up_requests: int = 0
    exponent: float | None = 1.0
    seed: int = 1
    connections: int = 32
    patience: float = 60.0
    told: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Raises InvalidInput for a plan that cannot be carried out."""
        if not self.queries:
            raise InvalidInput("There is no query to ask.", field="queries")
        if self.pace.rate is None and self.pace.callers is None:
            raise InvalidInput("Say how often to ask: a rate, or a number of callers.", field="rate")
        for name, value in (("rate", self.pace.rate), ("callers", self.pace.callers), ("seconds", self.seconds)):
            if value is not None and value <= 0:
                raise InvalidInput(f"'{name}' is {value:g}, and must be above 0.", field=name)
        if self.exponent is not None and self.exponent < 0:
            raise InvalidInput(f"Zipf's exponent is {self.exponent:g}, and cannot be below 0.", field="exponent")

    def schedule(self) -> list[float]:
        """Instants at which an open loop sends, in seconds from the start of what is counted."""
        assert self.pace.rate is not None
        return poisson(self.pace.rate, self.seconds, self.seed)

    def warm_up_schedule(self) -> list[float]:
        """Instants before that, all below 0."""
        assert self.pace.rate is not None
        if self.warm_up_requests:
            return warm_up_of(self.pace.rate, self.warm_up_requests, self.seed)
        return warm_up_for(self.pace.rate, self.warm_up, self.seed)

    def draws(self, *, warm_up: bool = False) -> Iterator[int]:
        """Which query each request asks, in the order of sending. Neither rate nor warm-up changes it."""
        if self.exponent is None:
            return in_order(len(self.queries))
        zipf = Zipf(len(self.queries), self.exponent, self.seed)
        return zipf.draws(self.seed, "warm-up" if warm_up else "queries")

    def factors(self) -> dict[str, Any]:
        """Everything that may make two runs differ, by name; the queries by their number and fingerprint."""
        ask = {f"ask.{name}": getattr(self.ask, name) for name in Ask.__slots__ if name != "fields"}
        return {
            **ask,
            **{f"ask.fields.{name}": value for name, value in self.ask.fields.items()},
            "pace.rate": self.pace.rate,
            "pace.callers": self.pace.callers,
            "queries": f"{len(self.queries)}, {fingerprint(self.queries)}",
            **{name: getattr(self, name) for name in Plan.__slots__ if name not in {"queries", "ask", "pace", "told"}},
            **{f"told.{name}": value for name, value in self.told.items()},
        }

    def to_json(self) -> dict[str, Any]:
        """As JSON, for another process."""
        ask = {name: getattr(self.ask, name) for name in Ask.__slots__}
        pace = {"rate": self.pace.rate, "callers": self.pace.callers}
        rest = {name: getattr(self, name) for name in Plan.__slots__ if name not in {"ask", "pace"}}
        return {**rest, "ask": ask, "pace": pace}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Plan:
        """What `to_json` wrote."""
        asked: dict[str, Any] = {**told["ask"]}
        asked["kind"] = Kind(asked["kind"])
        rest = {name: value for name, value in told.items() if name not in {"ask", "pace", "queries"}}
        return cls(queries=tuple(told["queries"]), ask=Ask(**asked), pace=Pace(**told["pace"]), **rest)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the service listens, and what lets the load in. Nothing of it is written into a recording."""

    url: str
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def sent_headers(self) -> dict[str, str]:
        """On every request."""
        allowed = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Content-Type": "application/json", **allowed, **self.headers}
