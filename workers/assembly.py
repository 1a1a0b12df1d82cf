"""Opens, in the child process that will use them, what a worker's tasks need: catalog, stages, announcer.

The parent processes import this module too; so native code is imported by the openers, in the child, and not here.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from assembly import Encoding, IngestOptions, Reading, StorageOptions
from ingest.catalog import Catalog, CatalogOptions
from ingest.nudging import Announcer
from ingest.publishing import PublishStep
from ingest.working import BatchOptions, EncodeStep, ParseStep
from workers.settings import WorkerSettings


class Openers(Protocol):
    """The module that opens the two halves of ingest: `assembly`, or a test's own."""

    def open_reading(self, options: IngestOptions) -> AbstractContextManager[Reading]: ...

    def open_encoding(self, options: IngestOptions) -> AbstractContextManager[Encoding]: ...


class Reader:
    """What a process of the parse queue can do."""

    def __init__(self, parsing: ParseStep) -> None:
        self.parsing = parsing

    @classmethod
    @contextmanager
    def open(cls, settings: WorkerSettings) -> Generator[Reader, None, None]:
        """Opens the parser and the chunker. Raises Misconfigured for a setting that cannot work."""
        with ExitStack() as opened:
            stages = opened.enter_context(_openers(settings).open_reading(ingest_options(settings)))
            catalog = opened.enter_context(Catalog.open(catalog_options(settings)))
            announcer = opened.enter_context(Announcer.open(settings.redis_url))
            yield cls(ParseStep(catalog, stages.parser, stages.chunkers, announcer.moved, BatchOptions()))


class Encoder:
    """What the one process of the encode queue can do; it owns the model."""

    def __init__(self, encoding: EncodeStep, publishing: PublishStep) -> None:
        self.encoding = encoding
        self.publishing = publishing

    @classmethod
    @contextmanager
    def open(cls, settings: WorkerSettings) -> Generator[Encoder, None, None]:
        """Opens the model, and asks anew for generations that another one made. Raises Misconfigured."""
        with ExitStack() as opened:
            stages = opened.enter_context(_openers(settings).open_encoding(ingest_options(settings)))
            catalog = opened.enter_context(Catalog.open(catalog_options(settings)))
            announcer = opened.enter_context(Announcer.open(settings.redis_url))
            encoding = EncodeStep(catalog, stages.encoder, announcer.moved, BatchOptions())
            publishing = PublishStep(catalog, stages.encoder, encoding, stages.writer, announcer.moved)
            publishing.renew_outdated()
            yield cls(encoding, publishing)


def catalog_options(settings: WorkerSettings) -> CatalogOptions:
    """The catalog that the API uses too."""
    return replace(_storage(settings).catalog(), lease_seconds=settings.lease_seconds)


def ingest_options(settings: WorkerSettings) -> IngestOptions:
    """How documents are read, cut and encoded. Raises Misconfigured for a chunker that is unknown or cannot work."""
    return IngestOptions(
        storage=_storage(settings),
        embedder=settings.embedder,
        chunking=settings.chunking(),
        device=settings.device,
        threads=settings.encoder_threads,
        exact_up_to=settings.exact_up_to,
        bulk=settings.bulk,
    )


def check_model(settings: WorkerSettings) -> None:
    """Said once and before anything is started. Raises Misconfigured when the embedder was never added."""
    if settings.stages == WorkerSettings.model_fields["stages"].default:
        _storage(settings).added_model(settings.embedder)


def _storage(settings: WorkerSettings) -> StorageOptions:
    return StorageOptions(settings.data_dir, settings.catalog_url)


def _openers(settings: WorkerSettings) -> Openers:
    return cast("Openers", import_module(settings.stages))
