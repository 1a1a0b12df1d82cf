"""A generation is there completely or not at all, is verified once per host, and refuses what does not fit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import Conflict, Damaged, InvalidInput, WrongFingerprint
from pipeline.passages import Passage
from pipeline.ports import GenerationRef
from retrieve.dense import DenseOptions
from retrieve.encoder import as_vectors
from retrieve.generation import Generation
from retrieve.manifest import NAME
from retrieve.segment import Segment
from retrieve.segment_writing import GenerationOptions
from retrieve.shelf import GenerationShelf, key_of
from retrieve.verifying import Verifier
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, directions, opened, published, writer

PASSAGES = [
    make_passage(f"doc{number}", 0, f"tram number {number} leaves at {number} past noon", language="en", page=number)
    for number in range(40)
]


def files(ref: GenerationRef) -> list[Path]:
    return sorted(path for path in ref.folder.parent.rglob("*") if path.is_file() and path.name != NAME)


def only(generation: Generation) -> Segment:
    (segment,) = generation.segments
    return segment


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    rich = make_passage(
        "doc",
        3,
        "ferries",
        title="Harbour",
        heading=("Harbour", "Ferries"),
        metadata={"year": 2026, "tags": ("a", "b"), "open": True, "share": 0.5},
        access=("staff", "crew"),
        parent="doc#1",
        start=12,
    )
    generation = opened(published(tmp_path, [*PASSAGES, rich]))
    assert generation.rows == 41
    assert only(generation).table.passage(40) == rich
    assert only(generation).table.passage(7) == PASSAGES[7]
    np.testing.assert_array_equal(only(generation).vectors, directions(41))
    assert generation.name == "handbook@1"


def test_more_rows_than_a_batch_are_found_by_row(tmp_path: Path) -> None:
    many = [make_passage(f"d{number}", 0, f"w{number % 50}") for number in range(9000)]
    generation = opened(published(tmp_path, many))
    for row in (0, 4095, 4096, 8191, 8192, 8999):
        assert only(generation).table.passage(row).document_id == f"d{row}"


def test_both_legs_find_what_was_written(tmp_path: Path) -> None:
    generation = opened(published(tmp_path, PASSAGES))
    assert only(generation).lexical.search(generation.analyzer.terms("number 17"), 1).rows.tolist() == [17]
    assert only(generation).dense.search(directions(40)[23], 1).rows.tolist() == [23]


@pytest.mark.parametrize("exact_up_to", [0, 1000])
def test_nothing_is_a_generation_too(tmp_path: Path, exact_up_to: int) -> None:
    ref = published(tmp_path, [], options=GenerationOptions(dense=DenseOptions(exact_up_to=exact_up_to)))
    generation = opened(ref)
    assert generation.rows == 0
    assert len(only(generation).lexical.search(generation.analyzer.terms("tram"), 10).rows) == 0
    assert len(only(generation).dense.search(directions(1)[0], 10).rows) == 0
    shelf = GenerationShelf((generation,))
    assert (shelf.passages([]), shelf.tokens([]), shelf.near_duplicates([], 0.9)) == ((), (), ())


def test_a_generation_is_never_rewritten(tmp_path: Path) -> None:
    published(tmp_path, PASSAGES)
    with pytest.raises(Conflict, match="never rewritten"):
        published(tmp_path, PASSAGES[:3])


def test_passages_and_vectors_must_be_equally_many_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="40 passages and 39 vectors"):
        published(tmp_path, PASSAGES, directions(39))
    assert left_in(tmp_path) == []


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() or path.name.startswith(".")]


def test_a_writer_that_fails_midway_leaves_nothing_behind(tmp_path: Path) -> None:
    def failing() -> Iterator[Passage]:
        yield from PASSAGES[:5]
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        writer(PASSAGES).write_segment(tmp_path, failing(), as_vectors(directions(40)))
    assert left_in(tmp_path) == []


def test_the_same_content_has_the_same_digest(tmp_path: Path) -> None:
    assert published(tmp_path / "a", PASSAGES).digest == published(tmp_path / "b", PASSAGES).digest


def flipped(file: Path) -> str:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return "has sha256"


def shortened(file: Path) -> str:
    os.truncate(file, file.stat().st_size - 1)
    return "bytes, and its manifest says"


def removed(file: Path) -> str:
    file.unlink()
    return "is missing"


@pytest.mark.parametrize("harm", [flipped, shortened, removed])
def test_damage_to_any_file_is_found_and_the_file_is_named(tmp_path: Path, harm: Callable[[Path], str]) -> None:
    count = len(files(published(tmp_path / "whole", PASSAGES)))
    assert count == 17
    for number in range(count):
        ref = published(tmp_path / str(number), PASSAGES)
        file = files(ref)[number]
        said = harm(file)
        with pytest.raises(Damaged) as damaged:
            opened(ref)
        assert f"{file.parent.name}/{file.name}" in str(damaged.value)
        assert said in str(damaged.value)
        assert "`fleetfoot refresh -c handbook`" in str(damaged.value)
        assert str(tmp_path) not in str(damaged.value), "callers read it"


def test_another_manifest_than_the_published_one_is_damage(tmp_path: Path) -> None:
    ref = published(tmp_path, PASSAGES)
    manifest = ref.folder / NAME
    manifest.write_text(manifest.read_text().replace('"number": 1', '"number": 2'))
    with pytest.raises(Damaged, match=ref.digest):
        opened(ref)
    manifest.unlink()
    with pytest.raises(Damaged, match="cannot be read"):
        opened(ref)


def test_another_embedder_is_refused_and_both_are_named(tmp_path: Path) -> None:
    ref = published(tmp_path, PASSAGES)
    with pytest.raises(WrongFingerprint) as refused:
        Generation.open(ref, embedder="other-model-0123")
    assert EMBEDDER in str(refused.value)
    assert "other-model-0123" in str(refused.value)


def test_terms_that_would_be_made_differently_now_are_refused(tmp_path: Path) -> None:
    ref = published(tmp_path, PASSAGES)
    manifest = ref.folder / NAME
    content = json.dumps(json.loads(manifest.read_text()) | {"analysis": "words-0"}).encode()
    manifest.write_bytes(content)
    import hashlib

    with pytest.raises(WrongFingerprint, match="words-0"):
        opened(GenerationRef("handbook", 1, ref.folder, hashlib.sha256(content).hexdigest()))


def test_content_is_read_once_and_again_only_when_the_file_was_touched(tmp_path: Path) -> None:
    ref = published(tmp_path, PASSAGES)
    verifier = Verifier(tmp_path / "stamps")

    def open_again() -> Generation:
        return Generation.open(ref, embedder=EMBEDDER, verifier=verifier)

    open_again()
    file = next(path for path in files(ref) if path.name == "signatures.npy")
    state = file.stat()
    flipped(file)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    open_again()  # size and times are as they were, so the stamp is believed
    os.utime(file)
    with pytest.raises(Damaged, match=r"signatures\.npy"):
        open_again()


@pytest.mark.parametrize("stamp", ["", "{", "[]", '{"files": []}'])
def test_a_stamp_that_cannot_be_read_costs_nothing_but_a_reading(tmp_path: Path, stamp: str) -> None:
    ref = published(tmp_path, PASSAGES)
    stamps = tmp_path / "stamps"
    Generation.open(ref, embedder=EMBEDDER, verifier=Verifier(stamps))
    (kept,) = stamps.iterdir()
    before = json.loads(kept.read_text())
    assert set(before["files"]) == {path.name for path in files(ref) if path.parent != stamps}
    kept.write_text(stamp)
    Generation.open(ref, embedder=EMBEDDER, verifier=Verifier(stamps))
    assert json.loads(kept.read_text()) == before


def test_an_open_generation_outlives_its_folder(tmp_path: Path) -> None:
    import shutil

    ref = published(tmp_path, PASSAGES)
    generation = opened(ref)
    shutil.rmtree(ref.folder.parent)
    assert only(generation).lexical.search({"17": 1.0}, 1).rows.tolist() == [17]
    assert only(generation).dense.search(directions(40)[23], 1).rows.tolist() == [23]
    assert GenerationShelf((generation,)).passages([39]) == (PASSAGES[39],)


def test_generations_side_by_side_are_one_shelf(tmp_path: Path) -> None:
    other = [make_passage("law", number, text) for number, text in enumerate(["no trams", PASSAGES[5].text])]
    shelf = GenerationShelf(
        (
            opened(published(tmp_path, PASSAGES)),
            opened(published(tmp_path, other, directions(40)[4:6], collection="laws")),
        )
    )
    mixed = [key_of(1, 1), 5, key_of(1, 0), 0]
    assert shelf.generation == "handbook@1+laws@1"
    assert [passage.document_id for passage in shelf.passages(mixed)] == ["law", "doc5", "law", "doc0"]
    assert shelf.tokens(mixed) == (other[1].tokens, PASSAGES[5].tokens, 2, PASSAGES[0].tokens)
    assert shelf.near_duplicates(mixed, 0.95) == (0, 0, 2, 3)
    for wrong in (key_of(2, 0), key_of(1, 2), -1):
        with pytest.raises(KeyError):
            shelf.tokens([wrong])


def test_a_shelf_of_nothing_is_empty_and_names_what_is_not_published() -> None:
    shelf = GenerationShelf((), ("handbook",))
    assert (shelf.generation, shelf.tokenizer, shelf.passages([])) == ("handbook@0", "", ())
    with pytest.raises(KeyError):
        shelf.tokens([0])
