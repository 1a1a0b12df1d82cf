"""The one place where the workers read their environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, SettingsConfigDict

from assembly import usable_cores
from pipeline.chunking import Chunking, Cut, chunking_of
from pipeline.errors import InvalidInput, Misconfigured

PREFIX = "FLEETFOOT_"


def _parsers() -> int:
    """One core is left to the encoder, which is nearly always the slower part."""
    return max(1, min(8, (os.cpu_count() or 2) - 1))


class WorkerSettings(BaseSettings):
    """What can be set. An empty variable counts as not set."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    redis_url: str = Field(default="redis://127.0.0.1:6379/0", description="Broker and notices: nothing that lasts.")
    data_dir: Path = Field(default=Path(".data"), description="Models, generations and the SQLite catalog.")
    catalog_url: str | None = Field(default=None, description="SQLAlchemy URL; without it SQLite in the data folder.")

    embedder: str = Field(default="default", description="Name of an added model, or its folder.")
    chunker: str = Field(
        default="sentences", description="tokens, sentences, headings or whole; for collections that chose none."
    )
    chunk_tokens: int = Field(default=200, ge=16, description="The longest passage, in tokens.")
    chunk_overlap: int = Field(default=0, ge=0, description="Tokens of it that repeat the one before, at most half.")
    device: str = Field(default="cpu", description="Where the embedder runs: cpu or cuda.")
    encoder_threads: int = Field(
        default_factory=usable_cores, ge=1, description="Texts encoded at once; else as many as cores."
    )
    exact_up_to: int = Field(default=20_000, ge=0, description="Vectors compared one by one; of more, codes first.")
    bulk: bool = Field(default=False, description="Encode through sentence-transformers (the models extra).")

    parsers: int = Field(default_factory=_parsers, ge=1, description="Processes that parse; else one less than cores.")
    sweep_seconds: float = Field(default=2.0, gt=0, description="Time after which the catalog is looked at unasked.")
    lease_seconds: float = Field(default=30.0, gt=0, description="Silence after which a task is taken for dead.")
    compact_share: float = Field(
        default=0.25, gt=0, description="A collection is compacted when its deltas and dead exceed this of its base."
    )
    grace_seconds: float = Field(default=15.0, ge=0, description="For running tasks, after the end was asked for.")
    keep_failed_seconds: float = Field(
        default=604_800, ge=0, description="How long the bytes of failed documents are kept, to be tried again."
    )
    keep_failed_bytes: int = Field(default=2**30, ge=0, description="Of all of these together, the latest.")
    webhook_secret: SecretStr | None = Field(default=None, description="Signs webhooks; without it none are sent.")
    allow_private_addresses: bool = Field(default=False, description="Webhooks and URLs may name this network's hosts.")
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Of the log.")

    stages: str = Field(default="assembly", description="Module that opens the stages; for tests.")

    @classmethod
    def read(cls, **given: Any) -> WorkerSettings:
        """Reads the environment; what is given wins. Raises Misconfigured, naming the variable and its value."""
        try:
            settings = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = PREFIX + str(first["loc"][0]).upper()
            raise Misconfigured(f"{name}={first['input']} cannot be used: {first['msg']}.") from None
        return settings

    def chunking(self) -> Chunking:
        """How collections that chose nothing are cut. Raises Misconfigured."""
        whole = self.chunker == Cut.WHOLE  # the sizes have defaults, and mean nothing to it
        try:
            return (
                chunking_of(self.chunker) if whole else chunking_of(self.chunker, self.chunk_tokens, self.chunk_overlap)
            )
        except InvalidInput as error:
            variable = {"chunker": "CHUNKER", "overlap": "CHUNK_OVERLAP"}.get(error.field or "", "CHUNK_TOKENS")
            raise Misconfigured(f"{PREFIX}{variable} cannot be used: {error}") from None


def table() -> list[tuple[str, str, str]]:
    """Every variable, its default as it would be written in the environment, and what it is for."""
    return [
        (PREFIX + name.upper(), _written(field.default), field.description or "")
        for name, field in WorkerSettings.model_fields.items()
    ]


def _written(default: object) -> str:
    if default is None or default is PydanticUndefined:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
