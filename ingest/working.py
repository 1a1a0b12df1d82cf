"""The steps before publishing, as a worker takes them: one batch at a time, shared with whoever else works."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingest.backlog import Backlog, Batch, Claim
from ingest.catalog import Catalog
from ingest.database import unpacked, unpacked_labels
from ingest.leases import LostLease, kept
from ingest.versions import Read, Versions
from pipeline.errors import FleetfootError, Unavailable
from pipeline.jobs import ItemState
from pipeline.passages import Document, Upload
from pipeline.ports import Chunker, Chunkers, Parser, PassageEncoder

_RENEWALS = 3  # heartbeats in the time of a lease
_REST = 2.0  # seconds before an item that went wrong is tried again
_PARSED = Batch(items=16, size=8 * 1024 * 1024)
_ENCODED = Batch(items=32, size=64)

Told = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How much one task takes: small batches share fairly, large ones save writes. Texts are encoded `texts` at a time.

    What was parsed is written, and so becomes visible, after `shown_seconds` at the latest.
    """

    parsed: Batch = _PARSED
    encoded: Batch = _ENCODED
    texts: int = 64
    shown_seconds: float = 0.5


class ParseStep:
    """Reads and cuts what was accepted. `told` is given the jobs that moved."""

    def __init__(
        self,
        catalog: Catalog,
        parser: Parser,
        chunkers: Chunkers,
        told: Told,
        options: BatchOptions,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backlog = Backlog(catalog)
        self._versions = Versions(catalog)
        self._beat = catalog.options.lease_seconds / _RENEWALS
        self._timer = timer
        self._parser = parser
        self._chunkers = chunkers
        self._told = told
        self._options = options

    def parse(self, collection_id: str) -> int:
        """Takes one batch and returns how many documents it had; 0 when others were quicker.

        A document that cannot be read fails alone. What nobody foresaw ends the batch: the item that it happened to
        rests and is tried again alone, the others go back untouched.
        """
        claims = self._backlog.claim(collection_id, ItemState.ACCEPTED, self._options.parsed)
        if not claims:
            return 0
        # Asked after claiming: who changes the choice takes what is claimed out of our hands.
        chunker = self._chunkers.chunker(self._versions.chunking(collection_id))
        left = list(self._backlog.settle_unchanged(claims, chunker.fingerprint))
        if len(left) < len(claims):
            self._told([claim.job_id for claim in claims])
        with _Returning(self._backlog, left, together=1), kept(lambda: self._backlog.renew(left), self._beat) as held:
            read: list[Read] = []
            written = self._timer()
            try:
                while len(read) < len(left) and held():
                    read.append(self._read(left[len(read)], chunker))
                    if self._timer() - written >= self._options.shown_seconds:
                        self._write(left, read, chunker)
                        written = self._timer()
            finally:  # whatever ended it, ended the next one: these are good
                self._write(left, read, chunker)
        return len(claims)

    def _write(self, left: list[Claim], read: list[Read], chunker: Chunker) -> None:
        """Keeps what was read so far in one write, which costs the same for one document as for ten."""
        if not read:
            return
        self._versions.keep(self._backlog, read, chunker.fingerprint)
        self._told([each.claim.job_id for each in read])
        del left[: len(read)]
        read.clear()

    def _read(self, claim: Claim, chunker: Chunker) -> Read:
        try:
            document = self._document(claim)
            return Read(claim, document, chunker.chunk(document))
        except LostLease:
            return Read(claim, reason="The document was removed meanwhile.")
        except Unavailable:  # no fault of the document
            raise
        except FleetfootError as error:
            return Read(claim, reason=str(error))

    def _document(self, claim: Claim) -> Document:
        if claim.action == "refresh":
            return self._versions.published_document(claim.collection_id, claim.document_id)
        if claim.was_read:
            return self._versions.document(claim.item_id)
        upload = Upload(
            claim.name,
            self._backlog.content(claim),
            claim.media_type,
            unpacked(claim.metadata),
            unpacked_labels(claim.access),
            json.loads(claim.options),
        )
        return self._parser.parse(upload, claim.document_id)


class EncodeStep:
    """Gives a vector to every text that has none."""

    def __init__(self, catalog: Catalog, encoder: PassageEncoder, told: Told, options: BatchOptions) -> None:
        self._catalog = catalog
        self._backlog = Backlog(catalog)
        self._versions = Versions(catalog)
        self._encoder = encoder
        self._told = told
        self._options = options

    def encode(self, collection_id: str) -> int:
        """Takes one batch and returns how many documents it had. Vectors are kept as they come."""
        claims = self._backlog.claim(collection_id, ItemState.PARSED, self._options.encoded)
        left = list(claims)
        seconds = self._catalog.options.lease_seconds / _RENEWALS
        with (
            _Returning(self._backlog, left, together=len(left)),
            kept(lambda: self._backlog.renew(claims), seconds) as held,
        ):
            if claims and self.fill([claim.item_id for claim in claims], held):
                with self._catalog.database.writing() as connection:
                    done = self._backlog.held(connection, claims)
                    self._backlog.finish(connection, done, ItemState.ENCODED)
                left.clear()
                self._told([claim.job_id for claim in claims])
        return len(claims)

    def fill(self, version_ids: Sequence[int], held: Callable[[], bool]) -> bool:
        """Encodes the texts of these versions that this encoder has not seen; False when the lease was lost."""
        embedder = self._encoder.fingerprint
        missing = self._versions.unencoded(version_ids, embedder)
        # Texts of like length pad each other least.
        hashes = sorted(missing, key=lambda hash_: len(missing[hash_]))
        for start in range(0, len(hashes), self._options.texts):
            if not held():
                return False
            some = hashes[start : start + self._options.texts]
            self._versions.keep_vectors(some, self._encoder.encode([missing[hash_] for hash_ in some]), embedder)
        return held()


class _Returning:
    """Returns the claims that are left when the block ends, whatever ends it.

    After an error the first `together` of them were at work: they keep their count of attempts and rest.
    """

    def __init__(self, backlog: Backlog, left: list[Claim], together: int) -> None:
        self._backlog = backlog
        self._left = left
        self._together = together

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._left:
            begun = self._left[: self._together] if isinstance(error, Exception) else []
            reason = f"{type(error).__name__}: {error}" if begun else ""
            self._backlog.give_back(self._left, begun=begun, reason=reason, wait=_REST)
