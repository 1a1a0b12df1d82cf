"""A new generation takes over while requests finish on the old one; a damaged one never serves."""

from __future__ import annotations

import asyncio
import shutil
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import Damaged, InvalidInput, NotFound, WrongFingerprint
from pipeline.filters import Comparison, Op
from pipeline.ports import GenerationRef
from retrieve.dense import DenseIndex
from retrieve.generation import Generation
from retrieve.manifest import Manifest
from retrieve.segment import OpenSegments
from retrieve.shelf import GenerationShelf
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, changed, file_of, published
from tests.searching import Searching, query, searching

OLD = [make_passage("old", 0, "the night tram leaves at six")]
NEW = [make_passage("new", 0, "the night tram leaves at seven")]
OTHER = [make_passage("other", 0, "the night tram leaves at eight")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Searching]:
    with searching(published(tmp_path, OLD)) as opened:
        yield opened


def unbounded() -> Clock:
    return Clock(Budget())


async def shelf(served: Searching, *names: str) -> GenerationShelf:
    return await served.generations.shelf("default", names or ("handbook",), unbounded())


async def test_a_published_generation_serves_after_the_next_refresh(served: Searching, tmp_path: Path) -> None:
    assert (await shelf(served)).generation == "handbook@1"
    served.current.refs["default", "handbook"] = published(tmp_path, NEW, number=2)
    assert (await shelf(served)).generation == "handbook@1"
    await served.generations.refresh()
    assert (await shelf(served)).generation == "handbook@2"


async def test_nothing_is_asked_about_a_collection_that_is_just_so(served: Searching, tmp_path: Path) -> None:
    await shelf(served)
    before = served.current.refs["default", "handbook"]
    new, laws = published(tmp_path, NEW, number=2), published(tmp_path, OTHER, collection="laws")
    served.current.refs |= {("default", "handbook"): new, ("default", "laws"): laws}
    await served.generations.refresh({("default", "handbook"): before})
    assert (await shelf(served)).generation == "handbook@1"
    await served.generations.refresh({("default", "handbook"): new, ("default", "laws"): laws})
    assert [state.generation for state in served.generations.states()] == ["handbook@2", "laws@1"]
    del served.current.refs["default", "laws"]
    await served.generations.refresh({("default", "handbook"): new})
    assert [state.collection for state in served.generations.states()] == ["handbook"]


async def test_a_request_finishes_on_the_generation_it_began_with(served: Searching, tmp_path: Path) -> None:
    began = await served.retriever.retrieve(query("night tram"), unbounded())
    ref = published(tmp_path, NEW, number=2)
    served.current.refs["default", "handbook"] = ref
    await served.generations.refresh()
    for folder in ref.folder.parent.iterdir():
        shutil.rmtree(folder)
    assert began.shelf.passages([began.items[0].key])[0].text == OLD[0].text
    after = await served.retriever.retrieve(query("night tram"), unbounded())
    assert after.shelf.passages([after.items[0].key])[0].text == NEW[0].text


async def test_a_damaged_generation_never_serves_and_the_one_before_it_does(served: Searching, tmp_path: Path) -> None:
    await shelf(served)
    ref = published(tmp_path, NEW, number=2)
    damaged = file_of(ref, "posting_rows.npy")
    damaged.write_bytes(b"")
    served.current.refs["default", "handbook"] = ref
    await served.generations.refresh()
    assert (await shelf(served)).generation == "handbook@1"
    (state,) = served.generations.states()
    assert state.generation == "handbook@1"
    assert damaged.name in state.problem
    assert str(tmp_path) not in state.problem
    served.current.refs["default", "handbook"] = published(tmp_path, NEW, number=3)
    await served.generations.refresh()
    (state,) = served.generations.states()
    assert (state.generation, state.problem) == ("handbook@3", "")


def harmed(ref: GenerationRef) -> GenerationRef:
    """The same, with one bit of one file flipped."""
    file = file_of(ref, "posting_rows.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    return ref


async def test_a_process_that_starts_with_a_damaged_generation_serves_the_newest_one_before_it_that_opens(
    served: Searching, tmp_path: Path
) -> None:
    oldest, older = published(tmp_path, OLD, number=2), harmed(published(tmp_path, OTHER, number=3))
    served.current.kept = [oldest, older]
    served.current.refs["default", "handbook"] = harmed(published(tmp_path, NEW, number=4))
    found = await served.retriever.retrieve(query("night tram"), unbounded())
    assert found.shelf.generation == "handbook@2"
    assert [(given_up.stage, given_up.reason, given_up.detail) for given_up in found.degraded] == [
        (Stage.ADMIT, "earlier_generation", "handbook@2 serves; handbook@4 is damaged")
    ]
    (state,) = served.generations.states()
    assert (state.generation, "posting_rows.npy" in state.problem) == ("handbook@2", True)
    served.current.refs["default", "handbook"] = published(tmp_path, NEW, number=5)
    await served.generations.refresh()
    found = await served.retriever.retrieve(query("night tram"), unbounded())
    assert (found.shelf.generation, found.degraded) == ("handbook@5", ())
    assert served.generations.states()[0].problem == ""


async def test_while_the_one_before_is_still_open_requests_are_told_too(served: Searching, tmp_path: Path) -> None:
    await shelf(served)
    served.current.refs["default", "handbook"] = harmed(published(tmp_path, NEW, number=2))
    await served.generations.refresh()
    (given_up,) = (await served.retriever.retrieve(query("night tram"), unbounded())).degraded
    assert given_up.detail == "handbook@1 serves; handbook@2 is damaged"


async def test_what_was_found_damaged_is_not_read_again(served: Searching, tmp_path: Path) -> None:
    tried: list[int] = []
    opens = served.generations._open_generation

    def counting(ref: GenerationRef) -> Generation:
        tried.append(ref.number)
        return opens(ref)

    served.generations._open_generation = counting
    served.current.kept = [harmed(published(tmp_path, OLD, number=2))]
    served.current.refs["default", "handbook"] = harmed(published(tmp_path, NEW, number=3))
    for _ in range(3):
        await served.generations.refresh()
        with pytest.raises(Damaged, match="handbook@3"):
            await shelf(served)
    served.current.kept.append(published(tmp_path / "restored", OLD, number=1))  # as from a backup
    await served.generations.refresh()
    await served.generations.refresh()
    assert tried == [3, 2, 1]
    assert (await shelf(served)).generation == "handbook@1"


async def test_a_generation_of_another_embedder_is_a_wrong_setting_and_nothing_serves_in_its_place(
    served: Searching, tmp_path: Path
) -> None:
    ours = published(tmp_path / "ours", OLD)
    theirs = published(tmp_path, NEW, number=2)
    opens = served.generations._open_generation

    def as_configured(ref: GenerationRef) -> Generation:
        return Generation.open(ref, embedder="another") if ref == theirs else opens(ref)

    served.generations._open_generation = as_configured
    served.current.kept = [ours]
    served.current.refs["default", "handbook"] = theirs
    with pytest.raises(WrongFingerprint):
        await shelf(served)
    served.current.refs["default", "handbook"] = harmed(published(tmp_path, NEW, number=3))
    served.current.kept = [theirs]
    with pytest.raises(Damaged):
        await shelf(served)


async def test_a_first_generation_that_is_damaged_is_told_and_not_taken_for_nothing(
    served: Searching, tmp_path: Path
) -> None:
    served.current.refs["default", "laws"] = None
    assert (await shelf(served, "laws")).generation == "laws@0"
    (told,) = (await shelf(served, "laws")).degraded
    assert (told.reason, "laws" in told.detail) == ("unpublished", True)
    served.current.refs["default", "laws"] = harmed(published(tmp_path, NEW, collection="laws"))
    await served.generations.refresh()
    with pytest.raises(Damaged):
        await shelf(served, "laws")


async def test_damage_where_nothing_served_before_is_told_to_the_caller_and_in_readiness(
    served: Searching, tmp_path: Path
) -> None:
    ref = published(tmp_path, NEW, collection="laws")
    file_of(ref, "terms.bin").unlink()
    served.current.refs["default", "laws"] = ref
    for _ in range(2):
        with pytest.raises(Damaged, match=r"terms\.bin"):
            await shelf(served, "laws")
    problems = {state.collection: state.problem for state in served.generations.states()}
    assert "terms.bin" in problems["laws"]


async def test_a_deleted_collection_is_forgotten(served: Searching) -> None:
    await shelf(served)
    served.current.refs.clear()
    await served.generations.refresh()
    assert served.generations.states() == ()
    with pytest.raises(NotFound):
        await shelf(served)


async def test_the_first_publish_of_an_empty_collection_is_found(served: Searching, tmp_path: Path) -> None:
    served.current.refs["default", "laws"] = None
    assert (await shelf(served, "laws")).generations == ()
    served.current.refs["default", "laws"] = published(tmp_path, NEW, collection="laws")
    await served.generations.refresh()
    assert (await shelf(served, "laws")).generation == "laws@1"


async def test_a_collection_that_is_open_is_not_looked_up_by_requests(served: Searching) -> None:
    await shelf(served)
    asked = served.current.asked
    for _ in range(5):
        await shelf(served)
    assert served.current.asked == asked


async def test_many_who_need_the_same_collection_first_open_it_once(tmp_path: Path) -> None:
    ref = published(tmp_path, OLD)
    with searching(ref) as served:
        shelves = await asyncio.gather(*(shelf(served) for _ in range(8)))
        assert len({id(found.generations[0]) for found in shelves}) == 1


async def test_collections_known_at_start_are_open_before_anybody_asks(served: Searching) -> None:
    await served.generations.open_all([("default", "handbook"), ("default", "gone")])
    clock = unbounded()
    await served.generations.shelf("default", ("handbook",), clock)
    assert Stage.ADMIT not in {timing.stage for timing in clock.timings}


async def test_a_name_that_does_not_exist_leaves_nothing_behind(served: Searching) -> None:
    for number in range(20):
        with pytest.raises(NotFound):
            await shelf(served, f"guess{number}")
    assert served.generations.states() == ()
    assert served.generations._turns == {}


async def test_a_file_that_could_not_be_read_once_is_tried_again(served: Searching, tmp_path: Path) -> None:
    await shelf(served)
    failures = [OSError("too many open files")]
    opens = served.generations._open_generation

    def failing(ref: GenerationRef) -> Generation:
        if failures:
            raise failures.pop()
        return opens(ref)

    served.generations._open_generation = failing
    served.current.refs["default", "handbook"] = published(tmp_path, NEW, number=2)
    await served.generations.refresh()
    assert served.generations.states()[0].problem == "too many open files"
    await served.generations.refresh()
    assert (await shelf(served)).generation == "handbook@2"
    assert served.generations.states()[0].problem == ""


def opened_by(served: Searching) -> list[str]:
    """Makes a note of every generation that is opened, with the segments that are read for it."""
    noted: list[str] = []
    shared = OpenSegments()

    def noting(ref: GenerationRef) -> Generation:
        manifest = Manifest.read(ref)
        new = [part for part in manifest.parts if shared.get(manifest.folder(ref.folder, part)) is None]
        noted.extend(f"{ref.number} {part.segment.kind}" for part in new)
        return Generation.open(ref, embedder=EMBEDDER, shared=shared)

    served.generations._open_generation = noting
    return noted


async def test_a_publish_opens_and_warms_what_is_new(served: Searching, tmp_path: Path) -> None:
    noted = opened_by(served)
    first = await shelf(served)
    warmed: list[object] = []

    class Noting(DenseIndex):
        def warm_up(self) -> None:
            warmed.append(self)

    base = first.segments[0].dense
    base.__class__ = Noting
    served.current.refs["default", "handbook"] = changed(first.generations[0].ref, NEW)
    await served.generations.refresh()
    second = await shelf(served)
    assert (second.generation, second.segments[0].dense, warmed) == ("handbook@2", base, [])
    assert noted == ["1 base", "2 delta"]


async def test_a_retired_generation_is_held_until_its_last_request_is_done_and_let_go_on_a_thread(
    served: Searching,
) -> None:
    began = await served.retriever.retrieve(query("night tram"), unbounded())
    first = served.current.refs["default", "handbook"]
    assert first is not None
    second = served.current.refs["default", "handbook"] = changed(first, NEW)
    await served.generations.refresh()
    assert served.generations.held() == (second, first)
    threads: list[str] = []
    assert isinstance(began.shelf, GenerationShelf)
    gone = weakref.ref(began.shelf.segments[0], lambda _: threads.append(threading.current_thread().name))
    await served.generations.refresh()
    assert served.generations.held() == (second, first)
    del began
    await served.generations.refresh()
    assert served.generations.held() == (second,)
    assert gone() is not None, "the second generation shares it"
    third = served.current.refs["default", "handbook"] = changed(second, gone=["new"])
    served.current.refs["default", "handbook"] = published_elsewhere(third)
    await served.generations.refresh()
    await served.generations.refresh()
    assert gone() is None
    assert threads == ["opening-0"]


def published_elsewhere(ref: GenerationRef) -> GenerationRef:
    """The same documents in a base of their own, as after a compaction."""
    return published(ref.folder.parent.parent / "compacted", OLD, number=ref.number + 1)


async def test_a_filter_that_means_nothing_here_is_bad_input_before_anything_is_searched(served: Searching) -> None:
    asked = replace(query("night tram"), filter=Comparison("colour", Op.EQ, "red"))
    with pytest.raises(InvalidInput, match="no field 'colour'"):
        await served.retriever.retrieve(asked, unbounded())
    assert served.encoder.batches == []


async def test_what_a_filter_leaves_out_neither_leg_finds(served: Searching, tmp_path: Path) -> None:
    made = [make_passage(f"d{n}", 0, f"the night tram {n}", metadata={"line": n}) for n in range(30)]
    served.current.refs["default", "handbook"] = ref = published(tmp_path, made, number=2)
    served.current.refs["default", "handbook"] = changed(ref, [made[4]], gone=["d5"])
    asked = replace(query("night tram", candidates=50), filter=Comparison("line", Op.LT, 8))
    for _ in range(2):
        clock = unbounded()
        found = await served.retriever.retrieve(asked, clock)
        shown = found.shelf.passages([item.key for item in found.items])
        assert sorted(passage.document_id for passage in shown) == ["d0", "d1", "d2", "d3", "d4", "d6", "d7"]
        assert all(len(item.hits) == 2 for item in found.items)
    assert Stage.FILTER not in {timing.stage for timing in clock.timings}, "the mask was kept"
    assert (served.retriever.filters.computed, served.retriever.filters.hits) == (2, 2)
