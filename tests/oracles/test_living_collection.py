"""A collection that is added to, removed from, compacted, rolled back and crashed is a dictionary, searched.

Real catalog, real files, the steps that workers take; a crash is an exception out of one operation on the disk or out
of one commit, after which another process goes on with nothing but what is on the disk.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import Engine, event

from ingest.catalog import Catalog, CatalogOptions
from ingest.keeping import Keeping
from pipeline.filters import Comparison, Op
from pipeline.passages import Passage, Upload
from pipeline.ports import GenerationRef
from retrieve.allowed import Allowed
from retrieve.filtering import mask_of
from retrieve.generation import Generation
from retrieve.hybrid import search_terms, search_vector
from retrieve.shelf import GenerationShelf
from retrieve.storage import Operation, Storage, unrecorded
from tests.fakes_ingest import DIMENSIONS, HashEncoder, vector_of
from tests.fakes_shelf import make_passage
from tests.generations import directions, unsynced, writer
from tests.ingesting import TENANT, Workshop
from tests.searching import query

COLLECTION = "living"
NAMES = [f"doc{number}" for number in range(7)]
WORDS = ["amber", "bridge", "canal", "depot"]
COLOURS = ["red", "blue"]
ASKED = directions(2, DIMENSIONS, seed=7)
LEASE = 60.0

lines = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=3)
contents = st.tuples(lines.map(tuple), st.sampled_from(COLOURS))
changes = st.dictionaries(st.sampled_from(NAMES), contents, min_size=1, max_size=4)
Content = tuple[tuple[str, ...], str]
Documents = dict[str, Content]


class Killed(BaseException):
    """The process is no more."""


class LivingCollection(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.folder = Path(self.opened.enter_context(tempfile.TemporaryDirectory()))
        self.time = 1_000_000.0
        self.left: int | None = None
        self.documents: Documents = {}
        self.kept: dict[int, Documents] = {}
        self.catalog: Catalog
        self.workshop: Workshop
        self.begin()

    # The process and its end

    def begin(self) -> None:
        """A process starts, with nothing but what is on the disk; leases of the one before have run out."""
        self.time += 2 * LEASE
        self.running = ExitStack()
        options = CatalogOptions(
            f"sqlite:///{self.folder / 'catalog.sqlite'}", self.folder / "generations", lease_seconds=LEASE, attempts=99
        )
        self.catalog = self.running.enter_context(Catalog.open(options, now=lambda: self.time))
        event.listen(Engine, "commit", self.on_commit)
        self.running.callback(event.remove, Engine, "commit", self.on_commit)
        known = [make_passage("x", 0, " ".join(WORDS))]
        storage = Storage(self.on_operation, unsynced)
        self.workshop = Workshop(self.catalog, encoder=HashEncoder(), writer=writer(known, storage=storage))

    def on_operation(self, operation: Operation) -> None:
        unrecorded(operation)
        self.step()

    def on_commit(self, _: object) -> None:
        self.step()

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def teardown(self) -> None:
        self.running.close()
        self.opened.close()

    # What may happen

    def work(self) -> None:
        self.time += 100.0
        self.workshop.work()
        ref = self.catalog.current(TENANT, COLLECTION)
        if ref is not None:
            self.kept.setdefault(ref.number, dict(self.documents))

    def accept(self, change: Documents) -> None:
        uploads = [
            Upload(name, "\n".join(text).encode(), metadata={"colour": colour})
            for name, (text, colour) in change.items()
        ]
        self.catalog.accept(TENANT, COLLECTION, uploads)
        self.documents |= change

    @rule(change=changes)
    def add_and_replace(self, change: Documents) -> None:
        self.accept(change)
        self.work()

    @precondition(lambda self: self.documents)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        names = data.draw(st.sets(st.sampled_from(sorted(self.documents)), min_size=1))
        known = {each.name: each.id for each in self.catalog.documents(TENANT, COLLECTION, limit=100)}
        self.catalog.remove(TENANT, COLLECTION, [known[name] for name in sorted(names)])
        for name in names:
            del self.documents[name]
        self.work()

    @precondition(lambda self: self.documents)
    @rule()
    def compact(self) -> None:
        Keeping(self.catalog).compact(TENANT, COLLECTION)
        self.work()
        ref = self.catalog.current(TENANT, COLLECTION)
        assert ref is not None
        assert [segment.kind for segment in self.workshop.writer.segments(ref)] == ["base"]

    @precondition(lambda self: len(self.kept) > 1)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        listed = Keeping(self.catalog).list(TENANT, COLLECTION)
        choices = [each.number for each in listed[1:] if each.number in self.kept]
        if choices:
            number = data.draw(st.sampled_from(choices))
            now = Keeping(self.catalog).roll_back(TENANT, COLLECTION, number)
            self.documents = dict(self.kept[number])
            self.kept[now.number] = dict(self.documents)

    @rule(change=changes, after=st.integers(0, 60), compacts=st.booleans())
    def crash(self, change: Documents, after: int, *, compacts: bool) -> None:
        """The process ends somewhere in the work; what serves is whole all the same, and another does the rest."""
        before = dict(self.documents)
        self.accept(change)
        if compacts and before:
            Keeping(self.catalog).compact(TENANT, COLLECTION)
        self.left = after
        try:
            self.workshop.work()
        except Killed:
            self.left = None
            self.running.close()
            self.begin()
            self.check_whole(before)
        finally:
            self.left = None
        self.work()

    @rule()
    def prune(self) -> None:
        self.workshop.pruning.prune()

    # What must always hold

    @invariant()
    def every_promise_is_kept(self) -> None:
        assert self.catalog.unfinished() == 0

    @invariant()
    def it_is_searched_like_a_dictionary(self) -> None:
        ref = self.catalog.current(TENANT, COLLECTION) if self.kept else None
        if ref is None:
            assert not self.documents
            return
        generation = self.open(ref)
        live = self.passages()
        for colour in (None, *COLOURS):
            wanted = {each: of for each, of in live.items() if colour in (None, of[1])}
            if colour is not None and not wanted:
                continue  # no document has the value; a field that nobody has is an error of the question
            asked = None if colour is None else Comparison("colour", Op.EQ, colour)
            allowed = Allowed(generation.segments, mask_of(generation.segments, asked, frozenset()))
            self.check_words(generation, allowed, wanted)
            self.check_vectors(generation, allowed, wanted)

    @invariant()
    def the_catalog_lists_what_is_searched(self) -> None:
        if self.kept:
            listed = self.catalog.documents(TENANT, COLLECTION, limit=100)
            assert sorted(each.name for each in listed) == sorted(self.documents)

    def passages(self) -> dict[tuple[str, int], tuple[str, str]]:
        """Text and colour of every passage, by document's name and place."""
        return {
            (name, place): (line, colour)
            for name, (text, colour) in self.documents.items()
            for place, line in enumerate(text)
        }

    def open(self, ref: GenerationRef) -> Generation:
        return Generation.open(ref, embedder=self.workshop.encoder.fingerprint)

    def check_whole(self, before: Documents) -> None:
        """Right after a crash each document is as it was or as it will be, and never a mixture."""
        ref = self.catalog.current(TENANT, COLLECTION) if before else None
        if ref is None:
            return
        generation = self.open(ref)
        shelf = GenerationShelf((generation,))
        everything = Allowed(generation.segments, mask_of(generation.segments, None, frozenset()))
        found = search_vector(ASKED[0], generation.segments, 1000, everything)
        shown: dict[str, list[tuple[int, str]]] = {}
        for passage in shelf.passages(list(found.keys)):
            shown.setdefault(passage.source, []).append((passage.ordinal, passage.text))
        for name in before.keys() | self.documents.keys() | shown.keys():
            texts = tuple(text for _, text in sorted(shown.get(name, [])))
            allowed = {of[name][0] if name in of else () for of in (before, self.documents)}
            assert texts in allowed, name

    def check_words(
        self, generation: Generation, allowed: Allowed, live: dict[tuple[str, int], tuple[str, str]]
    ) -> None:
        found = search_terms(query("amber canal"), (generation,), 1000, 256, allowed).found
        shown = self.shown(generation, list(found.keys) if found else [])
        expected = [place for place, (line, _) in live.items() if {"amber", "canal"} & set(line.split())]
        assert Counter(shown) == Counter(expected)

    def check_vectors(
        self, generation: Generation, allowed: Allowed, live: dict[tuple[str, int], tuple[str, str]]
    ) -> None:
        for vector in ASKED:
            found = search_vector(vector, generation.segments, 4, allowed)
            assert len(found.keys) == min(4, len(live))
            nearest = sorted((-similarity(line, vector) for line, _ in live.values()))[:4]
            assert all(abs(score + cosine) < 1e-5 for score, cosine in zip(found.scores, nearest, strict=True))
            assert set(self.shown(generation, list(found.keys))) <= live.keys()

    def shown(self, generation: Generation, keys: list[int]) -> list[tuple[str, int]]:
        passages: tuple[Passage, ...] = GenerationShelf((generation,)).passages(keys)
        return [(passage.source, passage.ordinal) for passage in passages]


def similarity(line: str, vector: np.ndarray) -> float:
    return float(np.frombuffer(vector_of(line), np.float32) @ vector)


TestLivingCollection = LivingCollection.TestCase
TestLivingCollection.settings = settings(
    max_examples=12, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
)
