"""Power is cut after every operation of the storage: what a row of the catalog names is always there and whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.ports import GenerationRef
from retrieve.encoder import as_vectors
from retrieve.generation import Generation
from retrieve.generation_writing import FolderWriter
from retrieve.shelf import GenerationShelf
from retrieve.storage import Act, Storage
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, directions, opened, published, unsynced, writer
from tests.simulated_disk import Recording, put

OLD = [make_passage(f"doc{number}", 0, f"tram {number}") for number in range(4)]
NEW = [make_passage("doc2", 0, "ferry 2"), make_passage("doc9", 0, "ferry 9")]
AFTER = [*OLD[:2], OLD[3], *NEW]


def delta(made: FolderWriter, home: Path, before: GenerationRef, number: int) -> GenerationRef:
    """Two documents change."""
    (base, *_) = made.segments(before)
    added = made.write_segment(home, NEW, as_vectors(directions(2)), base)
    written = made.write_generation(
        home,
        "handbook",
        number,
        embedder=EMBEDDER,
        chunker="chunker",
        previous=before,
        keep=[base.name],
        gone=["doc2", "doc9"],
        added=added,
    )
    return GenerationRef("handbook", number, home / f"g{number}", written.digest)


def base(made: FolderWriter, home: Path, _: GenerationRef, number: int) -> GenerationRef:
    """All is written anew, as by a compaction."""
    added = made.write_segment(home, AFTER, as_vectors(directions(5)))
    by = {"embedder": EMBEDDER, "chunker": "chunker"}
    written = made.write_generation(home, "handbook", number, **by, previous=None, keep=(), gone=(), added=added)
    return GenerationRef("handbook", number, home / f"g{number}", written.digest)


def texts(generation: Generation) -> list[str]:
    shelf = GenerationShelf((generation,))
    keys = [
        (place << 40) + row
        for place, segment in enumerate(generation.segments)
        for row in range(segment.rows)
        if segment.alive is None or segment.alive[row]
    ]
    return sorted(passage.text for passage in shelf.passages(keys))


Publish = Callable[[FolderWriter, Path, GenerationRef, int], GenerationRef]


def every_cut(folder: Path, publish: Publish) -> int:
    """Cuts the power after every operation of a publish and of removing what it replaces, and looks at what is there.

    Returns how many states of the disk were tried.
    """
    live = folder / "live"
    before = published(live, OLD)
    recording = Recording(live)
    made = writer(OLD, storage=Storage(recording, unsynced))  # the disk is simulated
    after = publish(made, before.folder.parent, before, 2)
    committed = len(recording.steps)  # from here on the catalog may name generation 2, and later nothing else
    made.remove(before.folder)
    tried = 0
    for steps in range(len(recording.steps) + 1):
        for how, disk in recording.cut_after(steps):
            where = folder / "cut"
            put(disk, where)

            def moved(ref: GenerationRef, to: Path = where) -> GenerationRef:
                return replace(ref, folder=to / ref.folder.relative_to(live))

            if steps <= committed:
                assert texts(opened(moved(before))) == sorted(p.text for p in OLD), (steps, how)
            if steps >= committed:
                assert texts(opened(moved(after))) == sorted(p.text for p in AFTER), (steps, how)
            current = before if steps <= committed else after
            if how == ("killed", "mixed")[steps % 2]:
                third = publish(writer(OLD), where / "handbook", moved(current), 3)
                assert texts(opened(third)) == sorted(p.text for p in AFTER), (steps, how, "the next run")
            shutil.rmtree(where)
            tried += 1
    assert tried == 4 * (len(recording.steps) + 1)
    assert {step.operation.act for step in recording.steps} == set(Act)
    return tried


@pytest.mark.parametrize("publish", [delta, base])
def test_power_may_be_cut_after_any_operation(tmp_path: Path, publish: Publish) -> None:
    assert every_cut(tmp_path, publish) > 100


def test_a_collections_first_publish_makes_every_folder_sure(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    recording = Recording(live)
    after = base(
        writer(OLD, storage=Storage(recording, unsynced)),
        live / "generations" / "c1",
        GenerationRef("", 0, live, ""),
        1,
    )
    for how, disk in recording.cut_after(len(recording.steps)):
        put(disk, tmp_path / how)
        moved = replace(after, folder=tmp_path / how / after.folder.relative_to(live))
        assert texts(opened(moved)) == sorted(p.text for p in AFTER), how
