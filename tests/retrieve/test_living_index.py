"""Any sequence of publishes, compactions, roll-backs and failures is searched like a dictionary and a loop."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline.filters import Comparison, Op
from pipeline.passages import Passage
from pipeline.ports import GenerationRef, SegmentRef
from retrieve.allowed import Allowed
from retrieve.encoder import as_vectors
from retrieve.filtering import mask_of
from retrieve.generation import Generation
from retrieve.generation_writing import FolderWriter
from retrieve.hybrid import search_terms, search_vector
from retrieve.segment import OpenSegments
from retrieve.shelf import GenerationShelf
from retrieve.storage import Operation, Storage, unrecorded
from tests.fakes_shelf import make_passage
from tests.generations import DIMENSIONS, EMBEDDER, directions, unsynced, writer
from tests.searching import query

NAMES = [f"doc{number}" for number in range(8)]
WORDS = ["amber", "bridge", "canal", "depot"]
COLOURS = ["red", "blue"]
ASKED = directions(3, seed=5)

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
contents = st.tuples(st.lists(texts, min_size=1, max_size=3), st.sampled_from(COLOURS))
changes = st.dictionaries(st.sampled_from(NAMES), contents | st.none(), min_size=1, max_size=4)
Content = tuple[list[str], str]


class Failing(Exception):
    """A disk is full."""


@dataclass(frozen=True)
class Published:
    ref: GenerationRef
    documents: Mapping[str, Content]


def passages_of(name: str, content: Content) -> list[Passage]:
    return [make_passage(name, n, text, metadata={"colour": content[1]}) for n, text in enumerate(content[0])]


def vector_of(passage: Passage) -> np.ndarray:
    return directions(1, DIMENSIONS, seed=crc32(f"{passage.id} {passage.text}".encode()))[0]


def vectors_of(passages: list[Passage]) -> np.ndarray:
    return np.stack([np.zeros(DIMENSIONS, np.float32), *map(vector_of, passages)])[1:]


class LivingIndex(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name) / "c1"
        self.fails_at: int | None = None
        self.writer: FolderWriter = writer(
            [make_passage("x", 0, " ".join(WORDS))], storage=Storage(self.on_operation, unsynced)
        )
        self.shared = OpenSegments()
        self.number = 0
        self.history: list[Published] = []

    def on_operation(self, operation: Operation) -> None:
        unrecorded(operation)
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at == 0:
                raise Failing

    @property
    def current(self) -> Published:
        return self.history[-1]

    def segment(self, documents: Mapping[str, Content], base: SegmentRef | None = None) -> SegmentRef:
        passages = [each for name, content in sorted(documents.items()) for each in passages_of(name, content)]
        return self.writer.write_segment(self.home, passages, as_vectors(vectors_of(passages)), base)

    def generation(self, documents: Mapping[str, Content], **parts: object) -> None:
        self.number += 1
        written = self.writer.write_generation(
            self.home,
            "handbook",
            self.number,
            **{"embedder": EMBEDDER, "chunker": "c", "keep": (), "gone": (), "added": None, **parts},  # type: ignore[arg-type]
        )
        assert written.documents == len(documents)
        assert written.passages == sum(len(content[0]) for content in documents.values())
        ref = GenerationRef("handbook", self.number, self.home / f"g{self.number}", written.digest)
        self.history.append(Published(ref, dict(documents)))

    @initialize(documents=st.dictionaries(st.sampled_from(NAMES), contents, max_size=6))
    def first(self, documents: dict[str, Content]) -> None:
        self.generation(documents, previous=None, added=self.segment(documents))

    def publish(self, change: Mapping[str, Content | None]) -> None:
        segments = self.writer.segments(self.current.ref)
        fresh = {name: content for name, content in change.items() if content is not None}
        after = {name: content for name, content in self.current.documents.items() if name not in change} | fresh
        self.generation(
            after,
            previous=self.current.ref,
            keep=[segment.name for segment in segments],
            gone=list(change),
            added=self.segment(fresh, segments[0]) if fresh else None,
        )

    @rule(change=changes)
    def change(self, change: dict[str, Content | None]) -> None:
        self.publish(change)

    @rule(change=changes, operation=st.integers(1, 45))
    def fail(self, change: dict[str, Content | None], operation: int) -> None:
        """Somewhere in the middle, or not at all; either way the next one works."""
        self.fails_at = operation
        try:
            self.publish(change)
        except Failing:
            pass
        finally:
            self.fails_at = None

    @rule(meanwhile=changes)
    def compact(self, meanwhile: dict[str, Content | None]) -> None:
        """A base is made of what there is while a change is published, which stays as it is."""
        before = self.current
        base = self.segment(before.documents)
        self.publish(meanwhile)
        old = {segment.name for segment in self.writer.segments(before.ref)}
        keep = [each.name for each in self.writer.segments(self.current.ref) if each.name not in old]
        self.generation(
            self.current.documents,
            previous=self.current.ref,
            keep=keep,
            added=base,
            gone_from_added=list(meanwhile),
        )

    @precondition(lambda self: len(self.history) > 1)
    @rule(back=st.integers(1, 5))
    def roll_back(self, back: int) -> None:
        """An earlier generation serves again; the next publish goes on from it."""
        self.history = self.history[: max(1, len(self.history) - back)]

    @invariant()
    def is_searched_like_a_dictionary(self) -> None:
        if not self.history:
            return
        generation = Generation.open(self.current.ref, embedder=EMBEDDER, shared=self.shared)
        passages = [
            passage for name, content in self.current.documents.items() for passage in passages_of(name, content)
        ]
        for colour in (None, *COLOURS):
            live = [passage for passage in passages if colour in (None, passage.metadata["colour"])]
            asked = Comparison("colour", Op.EQ, colour) if colour and self.known(passages, colour) else None
            if colour and asked is None:
                continue
            allowed = Allowed(generation.segments, mask_of(generation.segments, asked, frozenset()))
            self.check_words(generation, allowed, live)
            self.check_vectors(generation, allowed, live)

    def known(self, passages: list[Passage], colour: str) -> bool:
        return any(passage.metadata["colour"] == colour for passage in passages)

    def check_words(self, generation: Generation, allowed: Allowed, live: list[Passage]) -> None:
        found = search_terms(query("amber canal"), (generation,), 1000, 256, allowed).found
        keys = found.keys if found else ()
        shown = {passage.id: passage for passage in GenerationShelf((generation,)).passages(list(keys))}
        expected = {passage.id: passage for passage in live if {"amber", "canal"} & set(passage.text.split())}
        assert shown == expected

    def check_vectors(self, generation: Generation, allowed: Allowed, live: list[Passage]) -> None:
        for vector in ASKED:
            found = search_vector(vector, generation.segments, 5, allowed)
            shown = GenerationShelf((generation,)).passages(list(found.keys))
            nearest = sorted(live, key=lambda passage: -float(vector_of(passage) @ vector))[:5]
            assert [passage.id for passage in shown] == [passage.id for passage in nearest]

    def teardown(self) -> None:
        self.folder.cleanup()


TestLivingIndex = LivingIndex.TestCase
TestLivingIndex.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
