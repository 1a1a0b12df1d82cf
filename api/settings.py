"""The one place where the API reads its environment.

Every variable begins with FLEETFOOT_; durations end in _MS or _SECONDS, sizes in _BYTES. `table()` lists them all with
their defaults for the README, so that the documentation cannot fall behind.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from api.assembly import DoorOptions
from api.connection import Patience
from api.events import StreamOptions
from api.limits import MIB, Limits
from api.serving import ServingOptions, refuse_strangers
from api.terms import TermsOptions
from api.wire import AskedOfStages, overridden, within
from assembly import IngestOptions, StorageOptions
from ingest.signing import secrets_of
from pipeline.chunking import chunking_set
from pipeline.clock import AWAITED, Stage
from pipeline.errors import InvalidInput, Misconfigured
from pipeline.load import LoadOptions
from pipeline.profile import SHARES, Profile, Rerank, Reserve

PREFIX = "FLEETFOOT_"


def _awaited(shares: dict[Stage, float]) -> dict[Stage, float]:
    never = [stage for stage in shares if stage not in AWAITED]
    if never:
        raise ValueError(f"'{never[0]}' never waits and cannot be cut; those that can are {', '.join(AWAITED)}")
    return shares


Shares = Annotated[dict[Stage, Annotated[float, Field(gt=0, le=1)]], AfterValidator(_awaited)]


class ProfileIn(AskedOfStages):
    """A profile as it is set: what a request may override, its deadline and how that is split."""

    deadline_ms: float | None = Field(default=None, gt=0)
    shares: Shares | None = None


class Settings(BaseSettings):
    """What can be set. An empty variable counts as not set."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    host: str = Field(default="127.0.0.1", description="Address to listen on; any but loopback needs a keys file.")
    port: int = Field(default=8080, ge=0, le=65535, description="0 takes a free one.")
    keys_file: Path | None = Field(default=None, description="TOML file of keys; without it one tenant, on loopback.")
    grace_seconds: float = Field(default=30, ge=0, description="For running streams, after the end was asked for.")
    keep_alive_seconds: float = Field(default=75, gt=0, description="How long an idle connection is kept.")
    header_seconds: float = Field(default=10, gt=0, description="In which a request's header has to come.")
    body_seconds: float = Field(default=20, gt=0, description="For its body, and a second more for each kB.")
    vanished_seconds: float = Field(default=60, gt=0, description="Until a client that has vanished is given up.")

    data_dir: Path = Field(default=Path(".data"), description="Models, generations and the SQLite catalog.")
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", description="Broker and notices: nothing that lasts.")
    catalog_url: str | None = Field(default=None, description="SQLAlchemy URL; without it SQLite in the data folder.")

    embedder: str = Field(default="default", description="Name of an added model, or its folder.")
    chunker: str = Field(
        default="sentences", description="tokens, sentences, headings or whole; for collections that chose none."
    )
    chunk_tokens: int = Field(default=200, ge=16, description="The longest passage, in tokens.")
    chunk_overlap: int = Field(default=0, ge=0, description="Tokens of it that repeat the one before, at most half.")
    reranker: str | None = Field(default=None, description="A cross-encoder's name or folder; without it none.")
    upstream_url: str | None = Field(default=None, description="vLLM, as OpenAI clients take it; else extractive.")
    upstream_model: str | None = Field(default=None, description="The model as the upstream lists it.")
    upstream_api_key: SecretStr | None = Field(default=None, description="Sent to the upstream as a bearer token.")
    upstream_priority: bool = Field(default=False, description="It schedules by priority, and is told the caller's.")
    upstream_connections: int = Field(default=128, ge=1, description="Answers streamed from it at once.")

    device: str = Field(default="cpu", description="Where encoder and reranker run: cpu or cuda.")
    fast_queries: bool = Field(default=True, description="Queries go through the embedder's int8 graph, if it has one.")
    cached_queries: int = Field(default=10_000, ge=0, description="Query vectors kept (1.5 kB each); 0 for none.")
    cached_retrievals: int = Field(default=2_000, ge=0, description="Retrievals kept (5 kB each); 0 for none.")
    cached_scores: int = Field(default=100_000, ge=0, description="Rerank scores kept (24 bytes each); 0 for none.")
    single_flight: bool = Field(default=True, description="Equal requests at the same time are computed once.")
    cache_redis_url: str | None = Field(default=None, description="A Redis in which instances share the three.")
    cache_seconds: int = Field(default=86_400, ge=1, description="How long they are kept there.")
    threads: int | None = Field(default=None, ge=1, description="Native calls at once; else as many as cores.")
    line: int = Field(default=64, ge=1, description="Requests that may wait for a stage's threads.")
    inside: int = Field(default=512, ge=1, description="Requests answered at once, half of them batch; more get 503.")

    shares: Shares = Field(
        default=dict(SHARES),
        description='The part of a deadline that a stage may use, as {"rerank": 0.25}; without one, what is left.',
    )
    reserve_ms: float = Field(
        default=10, ge=0, description="Kept of a deadline, with 2 % of it, for the answer itself."
    )
    rerank_budget_ms: float = Field(default=150, ge=0, description="For reranking, if its share is not less.")
    profiles: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,63}$")], ProfileIn] = Field(
        default={},
        description='More ways to answer, as {"quick": {"deadline_ms": 100, "shares": {}, "rerank": {"depth": 0}}}.',
    )
    deadline_ms: float = Field(default=1000, gt=0, description="Of a retrieval that names none.")
    first_token_deadline_ms: float = Field(default=30_000, gt=0, description="Of a chat that names none.")
    max_deadline_ms: float = Field(default=60_000, gt=0, description="The longest that may be asked for.")
    total_deadline_ms: float = Field(default=3_600_000, gt=0, description="The longest total_deadline_ms.")
    inter_token_seconds: float = Field(default=20, gt=0, description="Silence after which a stream is ended.")
    ping_seconds: float = Field(default=15, gt=0, description="Silence after which a stream gets a comment.")
    stall_seconds: float = Field(default=30, gt=0, description="How long a reader may take nothing.")

    webhook_url: str | None = Field(default=None, description="Told of every job's end that names no other address.")
    webhook_secret: SecretStr | None = Field(default=None, description="Signs webhooks; without it none are sent.")
    allow_private_addresses: bool = Field(default=False, description="Webhooks and URLs may name this network's hosts.")

    max_body_bytes: int = Field(default=4 * MIB, ge=1, description="Of a JSON request.")
    max_upload_bytes: int = Field(default=256 * MIB, ge=1, description="Of one upload, all files together.")
    max_file_bytes: int = Field(default=64 * MIB, ge=1, description="Of one file or text.")
    max_files: int = Field(default=1000, ge=1, description="Documents in one upload.")
    max_top_k: int = Field(default=1000, ge=1, description="Passages that may be asked for.")
    max_token_budget: int = Field(default=200_000, ge=1, description="Tokens of passages that may be asked for.")
    max_candidates: int = Field(default=1000, ge=1, description="Depth of a search leg that may be asked for.")
    max_depth: int = Field(default=500, ge=1, description="Candidates to rerank that may be asked for.")

    warm_up_seconds: float = Field(default=10, ge=0, description="For asking collections before the start; 0: not.")
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Of the log.")

    @classmethod
    def read(cls, **given: Any) -> Settings:
        """Reads the environment; what is given wins. Raises Misconfigured, naming the variable and its value."""
        try:
            settings = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            field, *place = (str(part) for part in first["loc"])
            named = PREFIX + field.upper() + "".join(f"[{part}]" for part in place if part != "[key]")
            reason = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
            raise Misconfigured(f"{named}={first['input']} cannot be used: {reason}.") from None
        except SettingsError as error:  # before validation, for a table that is not JSON
            name = next(PREFIX + field.upper() for field in cls.model_fields if f'"{field}"' in str(error))
            raise Misconfigured(f"{name}={os.environ.get(name)} cannot be used: it must be a JSON object.") from None
        refuse_strangers(settings.host, by_key=settings.keys_file is not None)
        return settings

    def door(self, version: str) -> DoorOptions:
        """Options of the app."""
        streams = StreamOptions(self.ping_seconds, self.stall_seconds, self.inter_token_seconds)
        load = LoadOptions(self.inside)
        return DoorOptions(self.limits(), streams, self.keys_file, version, load, self.terms())

    def terms(self) -> TermsOptions:
        """What a request may ask of its job. Raises Misconfigured for a webhook that could never be sent."""
        signed = self.webhook_secret is not None and bool(secrets_of(self.webhook_secret.get_secret_value()))
        options = TermsOptions(self.webhook_url, signed, self.allow_private_addresses)
        try:
            options.terms(None, self.webhook_url)
        except InvalidInput as error:
            raise Misconfigured(f"{PREFIX}WEBHOOK_URL={self.webhook_url} cannot be used: {error}") from None
        return options

    def ingest(self) -> IngestOptions:
        """How workers with the same settings read and cut, for dry runs. Raises Misconfigured."""
        chunking = chunking_set(self.chunker, self.chunk_tokens, self.chunk_overlap)
        return IngestOptions(StorageOptions(self.data_dir, self.catalog_url), self.embedder, chunking)

    def limits(self) -> Limits:
        """How much one request may ask for or bring."""
        return Limits(
            body=self.max_body_bytes,
            upload=self.max_upload_bytes,
            file=self.max_file_bytes,
            files=self.max_files,
            top_k=self.max_top_k,
            token_budget=self.max_token_budget,
            candidates=self.max_candidates,
            depth=self.max_depth,
            deadline=self.max_deadline_ms / 1000,
            total_deadline=self.total_deadline_ms / 1000,
            first_token_deadline=self.first_token_deadline_ms / 1000,
        )

    def serving(self) -> ServingOptions:
        """Options of the server."""
        # A stream that nobody reads is ended, and told of, at `stall`; only then does the connection end by itself.
        patience = Patience(self.header_seconds, self.body_seconds, 1.5 * self.stall_seconds)
        return ServingOptions(
            self.host,
            self.port,
            self.grace_seconds,
            self.keep_alive_seconds,
            patience=patience,
            vanished=self.vanished_seconds,
        )

    def profile(self) -> Profile:
        """The default profile."""
        return Profile(
            rerank=Rerank(budget=self.rerank_budget_ms / 1000),
            deadline=self.deadline_ms / 1000,
            shares=self.shares,
            reserve=Reserve(self.reserve_ms / 1000),
        )

    def every_profile(self) -> dict[str, Profile]:
        """The default profile and those of the table, which have its values where they name none of their own.

        Raises Misconfigured for one that asks for more than a request may.
        """
        default = self.profile()
        return {"default": default} | {name: self._named(name, each, default) for name, each in self.profiles.items()}

    def _named(self, name: str, given: ProfileIn, default: Profile) -> Profile:
        try:
            within("deadline_ms", given.deadline_ms, self.max_deadline_ms)
            profile = overridden(default, given, self.limits())
        except InvalidInput as error:
            raise Misconfigured(f"{PREFIX}PROFILES[{name}] cannot be used: {error}") from None
        return replace(
            profile,
            name=name,
            deadline=default.deadline if given.deadline_ms is None else given.deadline_ms / 1000,
            shares=default.shares if given.shares is None else given.shares,
        )


def table() -> list[tuple[str, str, str]]:
    """Every variable, its default as it would be written in the environment, and what it is for."""
    return [
        (PREFIX + name.upper(), _written(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def _written(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return json.dumps(default) if isinstance(default, dict) else str(default)
