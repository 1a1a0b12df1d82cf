"""Publishing: all that is ready in a collection becomes searchable together, or not at all."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.generations import Generations, Made, Plan
from ingest.leases import LostLease, kept
from ingest.versions import Versions
from ingest.working import EncodeStep, Told
from pipeline.ports import GenerationWriter, PassageEncoder

_RENEWALS = 3  # heartbeats in the time of a lease
_REST = 5.0  # seconds before a publish that went wrong is tried again


class PublishStep:
    """One publisher per collection at a time. `told` is given the jobs that moved."""

    def __init__(
        self,
        catalog: Catalog,
        encoder: PassageEncoder,
        encoding: EncodeStep,
        writer: GenerationWriter,
        told: Told,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        backlog = Backlog(catalog)
        self._generations = Generations(catalog, backlog)
        self._versions = Versions(catalog)
        self._lease_seconds = catalog.options.lease_seconds
        self._encoder = encoder
        self._encoding = encoding
        self._writer = writer
        self._told = told
        self._timer = timer

    def renew_outdated(self) -> None:
        """Asks for a new generation of every collection that another embedder has made; call it at start."""
        self._generations.mark_stale(self._encoder.fingerprint)

    def publish(self, collection_id: str) -> int | None:
        """Returns the number of the generation that now serves, or None when there was nothing to publish.

        Raises LostLease when another publisher went on meanwhile, or a job was cancelled; nothing has changed then.
        """
        plan = self._generations.begin(collection_id)
        if plan is None:
            return None
        folder = self._generations.folder(collection_id, plan.number)
        try:
            with kept(lambda: self._generations.renew(plan), self._lease_seconds / _RENEWALS) as held:
                made = self._make(plan, folder, held)
            job_ids = self._generations.commit(plan, made)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._generations.abandon(plan, 0.0 if isinstance(error, LostLease) else _REST)
            raise
        self._versions.purge(collection_id)
        self._told(job_ids)
        return plan.number

    def _make(self, plan: Plan, folder: Path, held: Callable[[], bool]) -> Made:
        """Writes the folder. Text without a vector of this embedder is encoded first: the embedder has changed."""
        started = self._timer()
        embedder, chunker = self._encoder.fingerprint, "+".join(self._versions.chunkers(plan.versions))
        if not self._encoding.fill(plan.versions, held):
            raise LostLease(f"Another publisher has taken over '{plan.collection}'.")
        vectors = self._versions.matrix(plan.versions, plan.passages, embedder, self._encoder.dimensions)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _settle(folder.parent.parent)
        passages = self._versions.passages(plan.versions)
        digest = self._writer.write(folder, plan.collection, plan.number, passages, vectors, embedder, chunker)
        _settle(folder.parent)
        return Made(digest, embedder, chunker, self._timer() - started)


def _settle(folder: Path) -> None:
    """Puts a folder's entries on the disk, so that a name seen once is there after a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
