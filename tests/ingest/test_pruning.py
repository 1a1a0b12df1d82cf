"""Nothing is deleted that somebody may still read, and nothing is kept that nobody can reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.compacting import Compactions
from ingest.generations import Generations
from ingest.leases import LostLease
from ingest.pruning import Pruned, Pruning
from ingest.readers import HELD_SECONDS, RENEWED_SECONDS, Readers
from ingest.schema import history, readers, versions
from pipeline.ports import GenerationRef
from tests.conftest import Now
from tests.fakes_ingest import PlainRemover, PlainWriter, texts_in
from tests.ingesting import TENANT, Workshop, id_of, ingest, number_of, searchable, uploads


def pruning(catalog: Catalog) -> Pruning:
    return Pruning(catalog, Backlog(catalog, "sweep"), PlainRemover())


def ref_of(catalog: Catalog) -> GenerationRef:
    ref = catalog.current(TENANT, "handbook")
    assert ref is not None
    return ref


def published(catalog: Catalog, now: Now, *texts: str) -> list[Path]:
    """A generation for each text, a second apart; returns their folders."""
    workshop, folders = Workshop(catalog), []
    for text in texts:
        ingest(workshop, "handbook", a=text)
        folders.append(ref_of(catalog).folder)
        now.pass_by(1)
    return folders


def outlived(catalog: Catalog, now: Now) -> None:
    now.pass_by(catalog.options.keep_seconds + 1)


def test_readers_keep_their_generation_until_nobody_can_be_reading_it(catalog: Catalog, now: Now) -> None:
    folders = published(catalog, now, "one", "two", "three")
    assert pruning(catalog).prune() == Pruned()
    outlived(catalog, now)
    assert pruning(catalog).prune().generations == 1
    assert [folder.exists() for folder in folders] == [False, True, True]
    assert searchable(catalog, "handbook") == ["three"]
    assert pruning(catalog).prune() == Pruned()


def test_a_pinned_generation_is_kept_with_its_segments_until_it_is_unpinned(catalog: Catalog, now: Now) -> None:
    folders = published(catalog, now, "one", "two", "three")
    keeping = Workshop(catalog).keeping
    assert keeping.pin(TENANT, "handbook", 1).pinned
    outlived(catalog, now)
    assert pruning(catalog).prune() == Pruned()
    assert texts_in(folders[0]) == ["one"]
    assert not keeping.pin(TENANT, "handbook", 1, pinned=False).pinned
    assert pruning(catalog).prune().generations == 1
    assert [folder.exists() for folder in folders] == [False, True, True]


def test_what_a_process_reads_is_kept_as_long_as_it_says_so(catalog: Catalog, now: Now) -> None:
    slow = Readers(catalog, "slow stream")
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    ref = ref_of(catalog)
    ingest(workshop, "handbook", a="two")
    ingest(workshop, "handbook", a="three")
    outlived(catalog, now)
    assert slow.hold([ref])
    assert not slow.hold([ref]), "a second time there is nothing to write"
    assert pruning(catalog).prune() == Pruned()
    assert [info.readers for info in workshop.keeping.list(TENANT, "handbook")] == [0, 0, 1]
    now.pass_by(RENEWED_SECONDS)
    assert slow.hold([ref])
    now.pass_by(HELD_SECONDS - 1)
    assert pruning(catalog).prune() == Pruned()
    now.pass_by(2)
    assert pruning(catalog).prune().generations == 1
    with catalog.database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(readers)) == 0


def test_a_process_that_ends_holds_nothing(catalog: Catalog, now: Now) -> None:
    published(catalog, now, "one", "two", "three")
    outlived(catalog, now)
    with Readers.open(catalog, "reader") as reader:
        reader.hold([GenerationRef("handbook", 1, ref_of(catalog).folder.with_name("g1"), "")])
        assert pruning(catalog).prune().generations == 0
    assert pruning(catalog).prune().generations == 1


def test_a_segment_is_kept_while_a_kept_generation_names_it(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", **{f"d{place}": f"text {place}" for place in range(10)})
    segments = ref_of(catalog).folder.parent / "segments"
    for place in range(4):
        ingest(workshop, "handbook", d0=f"changed {place}")
        now.pass_by(1)
    assert len(list(segments.iterdir())) == 5
    outlived(catalog, now)
    pruning(catalog).prune()
    assert len(list(segments.iterdir())) == 3, "the base, and a delta of each of the two that are kept"
    assert "changed 3" in searchable(catalog, "handbook")


def test_superseded_versions_go_with_the_last_generation_that_shows_them(catalog: Catalog, now: Now) -> None:
    def kept() -> tuple[int | None, int | None]:
        with catalog.database.reading() as connection:
            return tuple(connection.scalar(select(func.count()).select_from(table)) for table in (versions, history))  # type: ignore[return-value]

    published(catalog, now, "one", "two", "three")
    assert kept() == (3, 2)
    assert pruning(catalog).purge() == 0
    outlived(catalog, now)
    assert pruning(catalog).prune().versions == 1
    assert kept() == (2, 1)
    catalog.delete_collection(TENANT, "handbook")
    assert pruning(catalog).prune().versions == 2
    assert kept() == (0, 0)


def test_versions_of_a_cancelled_job_are_found_by_the_look_at_all(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    job = catalog.accept(TENANT, "handbook", uploads(a="one"))
    workshop.parse_step.parse(id_of(catalog, "handbook"))
    assert pruning(catalog).purge() == 0
    catalog.cancel(TENANT, job.id)
    assert pruning(catalog).purge() == 1


def test_what_a_dead_publisher_has_left_is_garbage_but_not_while_it_is_at_work(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    catalog.accept(TENANT, "handbook", uploads(b="two"))
    collection_id = id_of(catalog, "handbook")
    while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
        pass
    dead = Generations(catalog, Backlog(catalog, "dead"))
    plan = dead.begin(collection_id)
    assert plan is not None
    home = dead.home(collection_id)
    left = [home / "g2", home / ".unfinished-0af3", home / "segments" / "delta-0", home / "segments" / ".unfinished-1"]
    for folder in left:
        folder.mkdir()
    assert pruning(catalog).prune() == Pruned()
    assert all(folder.exists() for folder in left)
    now.pass_by(catalog.options.lease_seconds + 1)
    assert pruning(catalog).prune().folders == 4
    assert not any(folder.exists() for folder in left)
    with pytest.raises(LostLease):
        dead.commit(plan, workshop.publish_step._made(plan, None, lambda: True))
    workshop.work()
    assert searchable(catalog, "handbook") == ["one", "two"]


def test_a_base_that_is_being_compacted_or_waits_is_not_garbage(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one", b="two")
    collection_id = id_of(catalog, "handbook")
    compactions = Compactions(catalog, Backlog(catalog, "compactor"))
    snapshot = compactions.begin(collection_id)
    assert snapshot is not None
    segments = ref_of(catalog).folder.parent / "segments"
    left = [segments / "base-0", segments / ".unfinished-1"]
    for folder in left:
        folder.mkdir()
    assert pruning(catalog).prune() == Pruned()
    now.pass_by(catalog.options.lease_seconds + 1)
    assert pruning(catalog).prune().folders == 2
    with pytest.raises(LostLease):
        compactions.finish(snapshot, "{}")
    workshop.keeping.compact(TENANT, "handbook")
    assert workshop.compact_step.compact(collection_id) == 1
    assert pruning(catalog).prune() == Pruned()
    workshop.work()
    assert searchable(catalog, "handbook") == ["one", "two"]


def test_pruning_waits_for_a_publisher_and_a_publisher_for_pruning(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    garbage = ref_of(catalog).folder.parent / "segments" / "delta-0"
    garbage.mkdir()

    class Beginning(PlainRemover):
        def remove(self, folder: Path) -> None:
            catalog.accept(TENANT, "handbook", uploads(b="two"))
            while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
                pass
            assert workshop.publish_step.publish(collection_id) is None
            super().remove(folder)

    collection_id = id_of(catalog, "handbook")
    assert Pruning(catalog, Backlog(catalog, "sweep"), Beginning()).prune().folders == 1
    workshop.work()
    assert searchable(catalog, "handbook") == ["one", "two"]


def test_everything_of_a_deleted_collection_is_swept(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    folder = catalog.options.generations / id_of(catalog, "handbook")
    assert folder.is_dir()
    catalog.delete_collection(TENANT, "handbook")
    assert pruning(catalog).prune().folders == 1
    assert not folder.exists()


def test_a_generation_that_was_rolled_back_behind_neither_stands_in_nor_is_kept_for_that(
    catalog: Catalog, now: Now
) -> None:
    folders = published(catalog, now, "one", "two", "three")
    Workshop(catalog).keeping.roll_back(TENANT, "handbook", 2)
    assert [ref.number for ref in catalog.earlier(TENANT, "handbook", before=4)] == [2, 1]
    outlived(catalog, now)
    pruning(catalog).prune()
    assert [folder.exists() for folder in folders] == [True, True, False]
    assert number_of(catalog, "handbook") == 4
    assert searchable(catalog, "handbook") == ["two"]


def test_a_merged_delta_is_not_written_where_its_like_lies_already(catalog: Catalog, now: Now) -> None:
    writer = PlainWriter()
    workshop = Workshop(catalog, writer=writer)
    ingest(workshop, "handbook", **{f"d{place}": f"text {place}" for place in range(10)})
    for text in ("one", "two", "one"):
        ingest(workshop, "handbook", d0=text)
        now.pass_by(1)
    outlived(catalog, now)
    pruning(catalog).prune()
    assert "one" in searchable(catalog, "handbook")
