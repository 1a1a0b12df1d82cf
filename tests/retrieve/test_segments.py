"""What changes is written beside what stays, and a search over all of it finds what is alive."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import Conflict, Damaged, InvalidInput, WrongFingerprint
from pipeline.passages import Passage
from pipeline.ports import GenerationRef, SegmentRef, Written
from retrieve.encoder import as_vectors
from retrieve.generation import Generation
from retrieve.generation_writing import FolderWriter
from retrieve.hybrid import search_terms, search_vector
from retrieve.manifest import Manifest
from retrieve.segment import OpenSegments
from retrieve.shelf import ROW_BITS, GenerationShelf, key_of
from retrieve.storage import Act, Operation, Storage
from retrieve.verifying import Verifier
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, as_first_format, changed, directions, file_of, opened, published, writer
from tests.searching import query

DOCUMENTS = 30


def passages_of(*numbers: int, text: str = "tram number {} leaves at {} past noon") -> list[Passage]:
    """Two passages a document."""
    return [
        make_passage(f"doc{number:02}", ordinal, text.format(number, ordinal), language="en")
        for number in numbers
        for ordinal in range(2)
    ]


BASE = passages_of(*range(DOCUMENTS))
ROWS = directions(len(BASE))


def shown(generation: Generation, keys: Sequence[int]) -> list[str]:
    return [passage.id for passage in GenerationShelf((generation,)).passages(keys)]


def by_words(generation: Generation, text: str, depth: int = 100) -> list[str]:
    found = search_terms(query(text), (generation,), depth, 256).found
    return shown(generation, found.keys if found else ())


def by_vector(generation: Generation, vector: np.ndarray, depth: int = 100) -> list[str]:
    return shown(generation, search_vector(vector, generation.segments, depth).keys)


def test_a_replaced_document_is_found_as_it_is_now_and_never_as_it_was(tmp_path: Path) -> None:
    before = published(tmp_path, BASE, ROWS)
    new = passages_of(7, text="ferry number {} leaves at {}")
    generation = opened(changed(before, new, -ROWS[14:16]))
    assert (generation.rows, generation.manifest.documents) == (60, 30)
    assert by_words(generation, "ferry") == ["doc07:0", "doc07:1"]
    assert [passage.text for passage in GenerationShelf((generation,)).passages([key_of(1, 0)])] == [new[0].text]
    assert "doc07:0" not in by_words(generation, "tram")
    assert len(by_words(generation, "tram")) == 58
    assert by_vector(generation, -ROWS[14], 1) == ["doc07:0"]
    assert sorted(by_vector(generation, ROWS[14])) == sorted(passage.id for passage in BASE)


def test_a_removed_document_is_gone_from_both_legs(tmp_path: Path) -> None:
    generation = opened(changed(published(tmp_path, BASE, ROWS), gone=["doc03", "doc29", "stranger"]))
    assert (generation.rows, generation.manifest.documents, len(generation.segments)) == (56, 28, 1)
    for found in (by_words(generation, "tram"), by_vector(generation, ROWS[6])):
        assert len(found) == 56
        assert not {"doc03:0", "doc03:1", "doc29:0", "doc29:1"} & set(found)


def test_a_document_that_dies_twice_is_counted_once(tmp_path: Path) -> None:
    once = changed(published(tmp_path, BASE, ROWS), passages_of(3, text="new {} {}"))
    twice = changed(once, passages_of(3, text="newer {} {}"))
    generation = opened(twice)
    assert (generation.rows, generation.manifest.documents) == (60, 30)
    assert [part.dead.documents if part.dead else 0 for part in generation.manifest.parts] == [1, 0], (
        "the delta is gone"
    )
    assert by_words(generation, "new newer") == ["doc03:0", "doc03:1"]


def test_what_changes_back_has_the_segment_that_it_had_once_and_alive(tmp_path: Path) -> None:
    first = changed(published(tmp_path, BASE, ROWS), passages_of(1, 2, text="first {} {}"))
    second = changed(first, passages_of(2, text="second {} {}"))
    third = changed(second, passages_of(1, 2, text="first {} {}"))
    generation = opened(third)
    names = [segment.info.name for segment in generation.segments]
    assert len(names) == len(set(names)) == 2
    assert (generation.rows, by_words(generation, "second")) == (60, [])
    assert by_words(generation, "first") == ["doc01:0", "doc01:1", "doc02:0", "doc02:1"]


def test_a_delta_costs_no_reading_or_writing_of_the_base(tmp_path: Path) -> None:
    before = published(tmp_path, BASE, ROWS)
    touched: list[Operation] = []
    home, made = before.folder.parent, writer(BASE, storage=Storage(touched.append))
    (base,) = made.segments(before)
    new = passages_of(4, text="new {} {}")
    delta = made.write_segment(home, new, as_vectors(directions(2)), base)
    assert (delta.kind, delta.documents, delta.passages, delta.average_length) == ("delta", 1, 2, base.average_length)
    written(made, home, 2, before, keep=[base.name], gone=["doc04"], added=delta)
    assert [operation for operation in touched if base.name in str(operation.path)] == []
    assert {operation.act for operation in touched} == set(Act) - {Act.REMOVED}


def written(
    made: FolderWriter,
    home: Path,
    number: int,
    before: GenerationRef | None,
    *,
    keep: Sequence[str] = (),
    gone: Sequence[str] = (),
    added: SegmentRef | None = None,
    gone_from_added: Sequence[str] = (),
    embedder: str = EMBEDDER,
) -> Written:
    return made.write_generation(
        home,
        "handbook",
        number,
        embedder=embedder,
        chunker="chunker",
        previous=before,
        keep=keep,
        gone=gone,
        added=added,
        gone_from_added=gone_from_added,
    )


def test_a_new_base_takes_the_place_of_what_it_was_made_of_and_later_changes_stay(tmp_path: Path) -> None:
    """Compaction: documents as they were in generation 2 become a base while generation 3 is published."""
    second = changed(published(tmp_path, BASE, ROWS), passages_of(5, text="old {} {}"))
    third = changed(second, passages_of(5, 6, text="new {} {}"))
    made, home = writer(BASE), third.folder.parent
    of_second = [*BASE[:10], *passages_of(5, text="old {} {}"), *BASE[12:]]
    base = made.write_segment(home, of_second, as_vectors(ROWS))
    after = made.segments(third)[-1]
    fourth = written(made, home, 4, third, keep=[after.name], added=base, gone_from_added=["doc05", "doc06"])
    assert (fourth.documents, fourth.passages) == (30, 60)
    assert [segment.kind for segment in fourth.segments] == ["base", "delta"]
    generation = opened(GenerationRef("handbook", 4, home / "g4", fourth.digest))
    assert by_words(generation, "old new") == ["doc05:0", "doc05:1", "doc06:0", "doc06:1"]


def test_nothing_left_is_a_generation_too(tmp_path: Path) -> None:
    before = published(tmp_path, BASE[:4], ROWS[:4])
    home, made = before.folder.parent, writer(BASE)
    empty = written(made, home, 2, before)
    generation = opened(GenerationRef("handbook", 2, home / "g2", empty.digest))
    assert (generation.rows, generation.segments, empty.segments) == (0, (), ())
    assert (by_words(generation, "tram"), by_vector(generation, ROWS[0])) == ([], [])
    all_dead = opened(changed(before, number=3, gone=["doc00", "doc01"]))
    assert (all_dead.rows, by_words(all_dead, "tram"), by_vector(all_dead, ROWS[0])) == (0, [], [])


def test_a_base_that_is_written_again_beside_a_damaged_one_is_another(tmp_path: Path) -> None:
    ref = published(tmp_path, BASE, ROWS)
    file = file_of(ref, "vectors.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    again = published(tmp_path, BASE, ROWS, number=2)
    assert by_vector(opened(again), ROWS[4], 1) == ["doc02:0"]
    assert Manifest.read(again).parts[0].segment.name != Manifest.read(ref).parts[0].segment.name
    with pytest.raises(Damaged):
        opened(ref)


def test_equal_content_is_written_once(tmp_path: Path) -> None:
    made = writer(BASE)
    refs = [made.write_segment(tmp_path, BASE, as_vectors(ROWS)) for _ in range(2)]
    assert refs[0] == refs[1]
    assert [folder.name for folder in (tmp_path / "segments").iterdir()] == [refs[0].name]


def test_a_number_is_used_once_and_a_segment_must_be_there(tmp_path: Path) -> None:
    before = published(tmp_path, BASE, ROWS)
    made, home = writer(BASE), before.folder.parent
    with pytest.raises(Conflict, match="never rewritten"):
        written(made, home, 1, before)
    with pytest.raises(InvalidInput, match="nothing to keep of delta-1"):
        written(made, home, 2, before, keep=["delta-1"])
    (base,) = made.segments(before)
    with pytest.raises(WrongFingerprint):
        written(made, home, 2, before, keep=[base.name], embedder="another")
    made.remove(home / "segments" / base.name)
    with pytest.raises(InvalidInput, match=f"The segment {base.name} is not there"):
        written(made, home, 2, before, keep=[base.name])
    with pytest.raises(InvalidInput, match="is not there"):
        written(made, home, 2, None, added=base)
    made.remove(home / "segments" / base.name)  # once more is no error


def test_segments_that_are_open_are_shared_and_a_new_generation_reads_what_is_new(tmp_path: Path) -> None:
    before = published(tmp_path, BASE, ROWS)
    after = changed(before, passages_of(9, text="new {} {}"))
    shared = OpenSegments()

    def open_shared(ref: GenerationRef) -> Generation:
        return Generation.open(ref, embedder=EMBEDDER, shared=shared)

    first = open_shared(before)
    shutil.rmtree(first.segments[0].folder)  # whoever reads it again fails
    second = open_shared(after)
    assert second.segments[0].whole is first.segments[0]
    assert second.segments[0].table is first.segments[0].table
    assert by_words(first, "new") == []
    assert by_words(second, "new") == ["doc09:0", "doc09:1"]
    assert len(by_words(second, "tram")) == 58
    del first, second
    assert shared.get(before.folder.parent / "segments") is None
    with pytest.raises(Damaged, match="is missing"):
        open_shared(before)


@pytest.mark.parametrize("name", ["dead-0.npy", "manifest.json"])
def test_damage_to_what_a_generation_itself_has_is_found(tmp_path: Path, name: str) -> None:
    ref = changed(published(tmp_path, BASE, ROWS), gone=["doc00"])
    file = ref.folder / name
    content = file.read_bytes()
    for harm in (content[:-1], content[:-9] + b"!" + content[-8:]):
        file.write_bytes(harm)
        with pytest.raises(Damaged, match=name):
            opened(ref)
    file.unlink()
    with pytest.raises(Damaged, match=name):
        opened(ref)


def test_a_generation_of_the_first_format_serves_on_and_the_next_begins_with_a_base(tmp_path: Path) -> None:
    ref = as_first_format(published(tmp_path, BASE, ROWS))
    generation = Generation.open(ref, embedder=EMBEDDER, verifier=Verifier(tmp_path / "stamps"))
    assert by_vector(generation, ROWS[3], 1) == ["doc01:1"]
    assert len(by_words(generation, "tram")) == 60
    assert generation.segments[0].living("doc04").tolist() == [8, 9]
    assert GenerationShelf((generation,)).passages([3]) == (BASE[3],)
    made, home = writer(BASE), ref.folder.parent
    assert made.segments(ref) == ()
    fresh = made.write_segment(home, BASE, as_vectors(ROWS))
    after = written(made, home, 2, ref, added=fresh)
    assert opened(GenerationRef("handbook", 2, home / "g2", after.digest)).rows == 60
    with pytest.raises(InvalidInput, match="nothing to keep"):
        written(made, home, 3, ref, keep=[Manifest.read(ref).parts[0].segment.name])


def test_what_says_the_same_in_two_segments_is_told(tmp_path: Path) -> None:
    copy = make_passage("copy", 0, BASE[4].text)
    generation = opened(changed(published(tmp_path, BASE, ROWS), [copy], ROWS[4:5]))
    shelf = GenerationShelf((generation,))
    keys = [4, key_of(1, 0), 5]
    assert shelf.near_duplicates(keys, 0.95) == (0, 0, 2)
    assert shelf.tokens(keys) == tuple(passage.tokens for passage in (BASE[4], copy, BASE[5]))
    assert [len(ids) for ids in shelf.token_ids(keys)] == [8, 8, 8]
    assert shelf.content_hashes(keys)[0] == shelf.content_hashes(keys)[1]
    for wrong in (key_of(2, 0), key_of(1, 1), 60, 1 << ROW_BITS + 8):
        with pytest.raises(KeyError):
            shelf.tokens([wrong])


def test_a_query_is_analysed_for_the_languages_of_every_segment(tmp_path: Path) -> None:
    english = [make_passage("en", 0, "the trams are leaving", language="en")]
    german = [make_passage("de", 0, "die Straßenbahnen fahren ab", language="de")]
    generation = opened(changed(published(tmp_path, english), german))
    assert by_words(generation, "tram") == ["en:0"]
    assert by_words(generation, "Straßenbahn") == ["de:0"]
