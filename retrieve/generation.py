"""A generation: the only thing that is searched. Opened here, written in `retrieve.generation_writing`.

    <collection>/segments/base-<16 hex digits>/     segments, named by their content and shared (retrieve.segment)
    <collection>/segments/delta-<16 hex digits>/
    <collection>/g7/manifest.json                   which of them it consists of, what made it, a sha256 of every file
    <collection>/g7/dead-0.npy                      the rows of the first segment that are not alive, ascending

A document that is replaced or removed dies in the segments that have it and comes back in a new one, so a publish costs
what has changed. Generations of the first format, with one segment inside their own folder, are opened as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import WrongFingerprint
from pipeline.ports import GenerationRef
from retrieve.analysis import FINGERPRINT, QueryAnalyzer
from retrieve.dense import DenseOptions
from retrieve.giving_way import give_way
from retrieve.manifest import Manifest, damage
from retrieve.segment import OnVectors, OpenSegments, Segment
from retrieve.verifying import Verifier, dead_rows


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """An opened generation: segments that are searched as one. Safe to use from any thread.

    `analyzer` knows the languages of all of them, so that a query has the same terms in each.
    """

    ref: GenerationRef
    manifest: Manifest
    segments: tuple[Segment, ...]
    analyzer: QueryAnalyzer

    @classmethod
    def open(
        cls,
        ref: GenerationRef,
        *,
        embedder: str,
        verifier: Verifier | None = None,
        options: DenseOptions | None = None,
        dense: OnVectors | None = None,
        shared: OpenSegments | None = None,
    ) -> Generation:
        """Verifies and maps what is new: a segment that is open already is `shared`. `dense`, where given, searches the
        vectors of a base instead of the FAISS file, as on a GPU.

        Raises Damaged naming the file, and WrongFingerprint when `embedder`, which encodes the queries, is not the one
        that made the vectors, or when terms are made differently now.
        """
        manifest = Manifest.read(ref)
        give_way()
        check_same("embedder", manifest.embedder, embedder, ref)
        check_same("text analysis", manifest.analysis, FINGERPRINT, ref)
        verifier, shared = verifier or Verifier(None), shared or OpenSegments()
        segments: list[Segment] = []
        for place, part in enumerate(manifest.parts):
            folder = manifest.folder(ref.folder, part)
            segment = shared.get(folder)
            if segment is None:
                verifier.verify(ref, manifest, part)
                try:
                    segment = shared.keep(Segment.open(folder, part.segment, options, dense))
                except ValueError as error:  # from numpy and Arrow, for a header that makes no sense
                    raise damage(ref, f"{folder.name} cannot be opened: {error}") from error
            segments.append(segment.without(dead_rows(ref, place, part.dead)))
            give_way()
        counts = manifest.languages()
        languages = sorted(counts, key=lambda language: (-counts[language], language))
        return cls(ref, manifest, tuple(segments), QueryAnalyzer(language or None for language in languages))

    @property
    def rows(self) -> int:
        """How many passages are alive."""
        return self.manifest.passages

    @property
    def name(self) -> str:
        """As `handbook@7`."""
        return f"{self.ref.collection}@{self.ref.number}"


def check_same(what: str, made_by: str, used: str, ref: GenerationRef) -> None:
    """Raises WrongFingerprint, naming both."""
    if made_by != used:
        raise WrongFingerprint(
            f"'{ref.collection}@{ref.number}' was made with the {what} '{made_by}', and '{used}' is in use. Name the "
            f"former, or let workers with the latter make the collection anew."
        )
