"""Publishing: all that is ready in a collection becomes searchable together, or not at all.

what was accepted -> a delta beside the base: its own documents, and those of deltas that it takes in
a compacted base  -> takes the place of the layers that it was made of
everything else   -> a new base: the first publish, another embedder, a refresh, a change of half a collection
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.generations import Chosen, Generations, Made, Plan, Previous
from ingest.layers import Layer, Stack
from ingest.leases import LostLease, kept
from ingest.versions import Versions
from ingest.working import EncodeStep, Told
from pipeline.errors import Damaged, InvalidInput, WrongFingerprint
from pipeline.ports import GenerationWriter, PassageEncoder, SegmentRef, Written

_RENEWALS = 3  # heartbeats in the time of a lease
_log = logging.getLogger(__name__)
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
        self._layers = catalog.options.layers
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

        Raises LostLease when another publisher went on meanwhile, or a job was cancelled; nothing has changed then,
        and what was written is garbage, which a sweep removes.
        """
        plan = self._generations.begin(collection_id)
        if plan is None:
            return None
        try:
            with kept(lambda: self._generations.renew(plan), self._lease_seconds / _RENEWALS) as held:
                base = None if plan.compacted else self._base(plan)
                whole = base is None and plan.compacted is None
                made = self._made(plan, base, held)
            job_ids = self._generations.commit(plan, made, whole=whole)
        except BaseException as error:
            # Else nothing would ever be published.
            if plan.compacted and isinstance(error, (Damaged, InvalidInput, WrongFingerprint)):
                self._generations.forget_compacted(plan)
            self._generations.abandon(plan, 0.0 if isinstance(error, LostLease) else _REST)
            raise
        self._told(job_ids)
        return plan.number

    def _base(self, plan: Plan) -> SegmentRef | None:
        """The base that a delta is laid upon; None where a new one is due."""
        before = plan.previous
        if before is None or plan.stale or before.embedder != self._encoder.fingerprint:
            return None
        if before.stack.is_worth_a_base(plan.added.passages, self._layers):
            return None
        try:
            found = self._writer.segments(before.ref)  # none where an earlier release has written it
        except Damaged as error:
            _log.warning("%s. Its documents are published from the catalog, with a new base.", error)
            return None
        return found[0] if found else None

    def _made(self, plan: Plan, base: SegmentRef | None, held: Callable[[], bool]) -> Made:
        started = self._timer()
        if plan.compacted is not None and plan.previous is not None:
            return self._taken_over(plan, plan.previous, plan.compacted, started)
        if plan.previous is None or base is None:
            return self._whole(plan, held, started)
        return self._delta(plan, plan.previous, base, held, started)

    def _whole(self, plan: Plan, held: Callable[[], bool], started: float) -> Made:
        """A generation of one base. Text without a vector of this embedder is encoded: the embedder has changed."""
        chosen = self._generations.everything(plan)
        chunker = "+".join(self._versions.chunkers(chosen.versions))
        segment = self._segment(plan, chosen, None, held)
        written = self._writer.write_generation(
            self._home(plan),
            plan.collection,
            plan.number,
            embedder=self._encoder.fingerprint,
            chunker=chunker,
            previous=None,
            keep=(),
            gone=(),
            added=segment,
        )
        layers = [self._layer(plan, segment, 0)]
        return self._done(written, layers, self._encoder.fingerprint, chunker, started)

    def _delta(self, plan: Plan, before: Previous, base: SegmentRef, held: Callable[[], bool], started: float) -> Made:
        """What changes dies in the layers before and comes in a layer of its own, which takes in small ones."""
        layers = before.stack.layers
        taken, chosen = 0, plan.added
        if chosen.passages:
            taken = before.stack.merged(chosen.passages, self._layers, plan.compacting_from)
        kept_layers, merged = layers[: len(layers) - taken], layers[len(layers) - taken :]
        since = min((layer.since for layer in merged), default=plan.number)
        if merged:
            chosen += self._generations.shown_since(plan, since)
        segment = self._segment(plan, chosen, base, held) if chosen.passages else None
        chunker = _both(before.chunker, self._versions.chunkers(plan.added.versions))
        written = self._writer.write_generation(
            self._home(plan),
            plan.collection,
            plan.number,
            embedder=self._encoder.fingerprint,
            chunker=chunker,
            previous=before.ref,
            keep=[layer.name for layer in kept_layers],
            gone={*plan.touched, *chosen.documents},
            added=segment,
        )
        if segment is not None:
            # Equal content has one name: what has changed back is in its old layer once more, which is the newest now.
            older = [layer for layer in kept_layers if layer.name != segment.name]
            kept_layers = (*older, self._layer(plan, segment, since))
        made = self._done(written, kept_layers, self._encoder.fingerprint, chunker, started)
        return replace(made, since=since) if segment else made

    def _taken_over(self, plan: Plan, before: Previous, base: SegmentRef, started: float) -> Made:
        """The compacted base, in which dies what has changed since, and the deltas that have come since."""
        since = plan.compacting_from or 0
        later = [layer for layer in before.stack.deltas if layer.since > since]
        written = self._writer.write_generation(
            self._home(plan),
            plan.collection,
            plan.number,
            embedder=before.embedder,
            chunker=before.chunker,
            previous=before.ref,
            keep=[layer.name for layer in later],
            gone=(),
            added=base,
            gone_from_added=self._generations.changed_since(plan, since),
        )
        return self._done(written, [self._layer(plan, base, 0), *later], before.embedder, before.chunker, started)

    def _segment(self, plan: Plan, chosen: Chosen, base: SegmentRef | None, held: Callable[[], bool]) -> SegmentRef:
        if not self._encoding.fill(chosen.versions, held):
            raise LostLease(f"Another publisher has taken over '{plan.collection}'.")
        vectors = self._versions.matrix(
            chosen.versions, chosen.passages, self._encoder.fingerprint, self._encoder.dimensions
        )
        return self._writer.write_segment(self._home(plan), self._versions.passages(chosen.versions), vectors, base)

    def _done(self, written: Written, layers: Sequence[Layer], embedder: str, chunker: str, started: float) -> Made:
        """The writer leaves out a delta of which nothing is alive."""
        named = {segment.name for segment in written.segments}
        stack = Stack(tuple(layer for layer in layers if layer.name in named), written.passages)
        return Made(written.digest, stack, embedder, chunker, self._timer() - started)

    def _layer(self, plan: Plan, segment: SegmentRef, since: int) -> Layer:
        folder = self._home(plan) / "segments" / segment.name
        size = sum(file.stat().st_size for file in folder.iterdir())
        return Layer(segment.name, since, segment.passages, size)

    def _home(self, plan: Plan) -> Path:
        return self._generations.home(plan.collection_id)


def _both(before: str, now: Iterable[str]) -> str:
    """Every chunker that has cut something of a generation, as far as is known without reading all of it."""
    return "+".join(sorted({*before.split("+"), *now} - {""}))
