"""Opens, in the child process that will use them, what a worker's tasks need: catalog, stages, announcer.

The parent processes import this module too; so native code is imported by the openers, in the child, and not here.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from assembly import Encoding, IngestOptions, Reading, StorageOptions, open_remover
from ingest.backlog import Backlog
from ingest.catalog import Catalog, CatalogOptions
from ingest.compacting import CompactStep
from ingest.nudging import Announcer
from ingest.origins import Origins
from ingest.pruning import Pruning
from ingest.publishing import PublishStep
from ingest.retention import Retention
from ingest.signing import secrets_of
from ingest.webhooks import WebhookOptions
from ingest.working import BatchOptions, EncodeStep, ParseStep
from pipeline.ports import GenerationWriter
from workers.settings import WorkerSettings

_NICE = 10  # of 19: compaction takes what the others leave
_PURGE_SECONDS = 3600.0
_log = logging.getLogger(__name__)


class Openers(Protocol):
    """The module that opens the parts of ingest: `assembly`, or a test's own."""

    def open_reading(self, options: IngestOptions) -> AbstractContextManager[Reading]: ...

    def open_encoding(self, options: IngestOptions) -> AbstractContextManager[Encoding]: ...

    def open_compacting(self, options: IngestOptions) -> AbstractContextManager[GenerationWriter]: ...


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


class Compactor:
    """What the one process of the compact queue can do; it opens native code with the first work, and none before."""

    def __init__(self, settings: WorkerSettings, opened: ExitStack, catalog: Catalog, announcer: Announcer) -> None:
        self._settings = settings
        self._opened = opened
        self._catalog = catalog
        self._announcer = announcer
        self._step: CompactStep | None = None
        self._pruning: Pruning | None = None
        self._purged = float("-inf")

    @classmethod
    @contextmanager
    def open(cls, settings: WorkerSettings) -> Generator[Compactor, None, None]:
        """Opens the catalog. Whatever this process does gives way to everybody else's work."""
        os.nice(_NICE)
        with ExitStack() as opened:
            catalog = opened.enter_context(Catalog.open(catalog_options(settings)))
            announcer = opened.enter_context(Announcer.open(settings.redis_url))
            yield cls(settings, opened, catalog, announcer)

    def compact(self, collection_id: str) -> None:
        """Writes a new base of a collection. Raises LostLease when that was of no use any more."""
        if self._step is None:
            opener = _openers(self._settings).open_compacting(ingest_options(self._settings))
            writer = self._opened.enter_context(opener)
            self._step = CompactStep(self._catalog, writer, self._announcer.moved)
        number = self._step.compact(collection_id)
        if number is not None:
            _log.info("Made a new base of generation %d of the collection %s.", number, collection_id)

    def tidy(self) -> None:
        """Frees the space of what nobody can reach any more; looks through all versions now and then only."""
        if self._pruning is None:
            self._pruning = Pruning(self._catalog, Backlog(self._catalog), open_remover())
        if uploads := Retention(self._catalog).purge():
            _log.info("Deleted the bytes of %d documents that are done, or failed long ago.", uploads)
        pruned, purged = self._pruning.prune(), 0
        if time.monotonic() - self._purged >= _PURGE_SECONDS:
            purged = self._pruning.purge()
            Origins(self._catalog.database).tidy()
            self._purged = time.monotonic()
        versions = pruned.versions + purged
        if pruned.generations or pruned.folders or versions:
            _log.info(
                "Deleted %d superseded generations, %d folders and %d versions.",
                pruned.generations,
                pruned.folders,
                versions,
            )


def catalog_options(settings: WorkerSettings) -> CatalogOptions:
    """The catalog that the API uses too."""
    options = _storage(settings).catalog()
    layers = replace(options.layers, compact_share=settings.compact_share)
    return replace(
        options,
        lease_seconds=settings.lease_seconds,
        layers=layers,
        failed_seconds=settings.keep_failed_seconds,
        failed_bytes=settings.keep_failed_bytes,
    )


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


def webhook_options(settings: WorkerSettings) -> WebhookOptions | None:
    """How webhooks are sent; None where there is no secret to sign them with. Raises Misconfigured for a bad one."""
    secrets = secrets_of(settings.webhook_secret.get_secret_value()) if settings.webhook_secret else ()
    return WebhookOptions(secrets) if secrets else None


def check_model(settings: WorkerSettings) -> None:
    """Said once and before anything is started. Raises Misconfigured when the embedder was never added."""
    if settings.stages == WorkerSettings.model_fields["stages"].default:
        _storage(settings).added_model(settings.embedder)


def _storage(settings: WorkerSettings) -> StorageOptions:
    return StorageOptions(settings.data_dir, settings.catalog_url)


def _openers(settings: WorkerSettings) -> Openers:
    return cast("Openers", import_module(settings.stages))
