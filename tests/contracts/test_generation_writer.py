"""What every GenerationWriter promises: changes are written beside what stays, and each document is alive once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.errors import InvalidInput
from pipeline.passages import Passage, Vectors
from pipeline.ports import GenerationRef, GenerationWriter, SegmentRef, Written
from retrieve.generation import Generation
from retrieve.shelf import GenerationShelf, key_of
from tests.fakes_ingest import DIMENSIONS, PlainWriter, texts_in, vector_of
from tests.fakes_shelf import make_passage
from tests.generations import writer

MADE_BY = {"embedder": "hash-1", "chunker": "lines-1"}
Texts = dict[str, Sequence[str]]
BASE: Texts = {"a": ["tram one", "tram two"], "b": ["ferry"], "c": ["bus"]}


def of(texts: Texts) -> list[Passage]:
    return [make_passage(name, n, text) for name, lines in sorted(texts.items()) for n, text in enumerate(lines)]


def vectors(passages: Sequence[Passage]) -> Vectors:
    data = b"".join(vector_of(passage.text) for passage in passages)
    return Vectors((len(passages), DIMENSIONS), "float32", memoryview(data))


def texts_on_the_shelf(ref: GenerationRef) -> list[str]:
    shelf = GenerationShelf((Generation.open(ref, embedder=MADE_BY["embedder"]),))
    keys = [
        key_of(place, row)
        for place, segment in enumerate(shelf.segments)
        for row in range(segment.rows)
        if segment.alive is None or segment.alive[row]
    ]
    return [passage.text for passage in shelf.passages(keys)]


@dataclass(frozen=True)
class Home:
    """A writer in a folder of its own, and how to read what it wrote."""

    writer: GenerationWriter
    home: Path
    read: Callable[[GenerationRef], list[str]]

    def segment(self, texts: Texts, base: SegmentRef | None = None) -> SegmentRef:
        passages = of(texts)
        return self.writer.write_segment(self.home, passages, vectors(passages), base)

    def generation(self, number: int, previous: GenerationRef | None = None, **parts: object) -> Written:
        nothing = {"keep": (), "gone": (), "added": None}
        return self.writer.write_generation(
            self.home,
            "handbook",
            number,
            previous=previous,
            **{**MADE_BY, **nothing, **parts},  # type: ignore[arg-type]  # as the port has them
        )

    def ref(self, number: int, written: Written) -> GenerationRef:
        return GenerationRef("handbook", number, self.home / f"g{number}", written.digest)

    def texts(self, number: int, written: Written) -> list[str]:
        return sorted(self.read(self.ref(number, written)))


@pytest.fixture(params=["folders", "plain"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    home = tmp_path / "generations" / "c1"
    if request.param == "plain":
        return Home(PlainWriter(), home, lambda ref: texts_in(ref.folder))
    return Home(writer(of(BASE)), home, texts_on_the_shelf)


def test_a_base_is_all_that_it_was_given(here: Home) -> None:
    base = here.segment(BASE)
    first = here.generation(1, added=base)
    assert (base.kind, base.documents, base.passages) == ("base", 3, 4)
    assert (first.segments, first.documents, first.passages) == ((base,), 3, 4)
    assert here.texts(1, first) == ["bus", "ferry", "tram one", "tram two"]
    assert here.writer.segments(here.ref(1, first)) == (base,)


def test_a_delta_takes_the_place_of_what_it_replaces_and_what_is_gone_is_gone(here: Home) -> None:
    base = here.segment(BASE)
    first = here.ref(1, here.generation(1, added=base))
    delta = here.segment({"a": ["tram three"], "d": ["lift"]}, base)
    second = here.generation(2, first, keep=[base.name], gone=["a", "c", "d"], added=delta)
    assert (delta.kind, delta.average_length) == ("delta", base.average_length)
    assert second.segments == (base, delta)
    assert (second.documents, second.passages) == (3, 3)
    assert here.texts(2, second) == ["ferry", "lift", "tram three"]
    third = here.generation(3, here.ref(2, second), keep=[base.name, delta.name], gone=["b"])
    assert here.texts(3, third) == ["lift", "tram three"]
    assert here.texts(2, second) == ["ferry", "lift", "tram three"], "an earlier one is as it was"


def test_a_delta_of_which_nothing_is_alive_is_left_out(here: Home) -> None:
    base = here.segment(BASE)
    first = here.ref(1, here.generation(1, added=base))
    delta = here.segment({"d": ["lift"]}, base)
    second = here.ref(2, here.generation(2, first, keep=[base.name], gone=["d"], added=delta))
    third = here.generation(3, second, keep=[base.name, delta.name], gone=["d"])
    assert (third.segments, third.documents) == ((base,), 3)


def test_a_new_base_comes_before_the_deltas_and_what_has_changed_since_dies_in_it(here: Home) -> None:
    base = here.segment(BASE)
    first = here.ref(1, here.generation(1, added=base))
    delta = here.segment({"b": ["ship"]}, base)
    second = here.ref(2, here.generation(2, first, keep=[base.name], gone=["b", "c"], added=delta))
    compacted = here.segment({**BASE, "c": ["bus, as it was when this was begun"]})
    third = here.generation(3, second, keep=[delta.name], added=compacted, gone_from_added=["b", "c"])
    assert third.segments == (compacted, delta)
    assert here.texts(3, third) == ["ship", "tram one", "tram two"]


def test_equal_content_is_one_segment_and_what_changes_back_is_in_it_once(here: Home) -> None:
    base = here.segment(BASE)
    assert here.segment(BASE) == base
    first = here.ref(1, here.generation(1, added=base))
    one = here.segment({"b": ["ship"]}, base)
    second = here.ref(2, here.generation(2, first, keep=[base.name], gone=["b"], added=one))
    two = here.segment({"b": ["boat"], "c": ["coach"]}, base)
    third = here.ref(3, here.generation(3, second, keep=[base.name, one.name], gone=["b", "c"], added=two))
    again = here.segment({"b": ["boat"], "c": ["coach"]}, base)
    assert again == two
    fourth = here.generation(4, third, keep=[base.name, two.name], gone=["b", "c"], added=again)
    assert fourth.segments == (base, two)
    assert here.texts(4, fourth) == ["boat", "coach", "tram one", "tram two"]


def test_nothing_may_be_left_and_a_segment_must_be_there(here: Home) -> None:
    base = here.segment({})
    empty = here.generation(1, added=base)
    assert (empty.documents, empty.passages, here.texts(1, empty)) == (0, 0, [])
    lost = SegmentRef("base-0123456789abcdef", "base", 1, 1, 1.0)
    with pytest.raises(InvalidInput, match="base-0123456789abcdef is not there"):
        here.generation(2, added=lost)
