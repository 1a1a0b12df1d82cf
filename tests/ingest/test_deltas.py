"""Publishing in proportion to the change: what is new is written, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, func, select

from ingest.backlog import Backlog
from ingest.catalog import Catalog, CatalogOptions
from ingest.compacting import Compactions
from ingest.database import Database
from ingest.generations import Generations
from ingest.leases import LostLease
from ingest.schema import documents, generations, history
from pipeline.errors import Damaged
from pipeline.ports import GenerationRef, SegmentRef
from tests.conftest import Now
from tests.fakes_ingest import HashEncoder, PlainWriter, layers_in, texts_in
from tests.ingesting import TENANT, Workshop, id_of, ingest, number_of, remove, searchable, uploads


def texts(number: int, **others: str) -> dict[str, str]:
    return {**{f"d{place:04}": f"text {place}" for place in range(number)}, **others}


def layers(catalog: Catalog) -> list[tuple[str, int]]:
    ref = catalog.current(TENANT, "handbook")
    assert ref is not None
    return layers_in(ref.folder)


def started(catalog: Catalog, number: int = 10) -> tuple[Workshop, PlainWriter]:
    """A collection with a base of so many documents."""
    writer = PlainWriter()
    workshop = Workshop(catalog, writer=writer)
    ingest(workshop, "handbook", **texts(number))
    writer.written.clear()
    return workshop, writer


def test_a_changed_document_is_all_that_is_written(catalog: Catalog) -> None:
    workshop, writer = started(catalog)
    ingest(workshop, "handbook", d0003="changed")
    assert writer.written == [["changed"]]
    assert searchable(catalog, "handbook") == sorted(texts(10, d0003="changed").values())
    assert layers(catalog) == [("base", 10), ("delta", 1)]


def test_a_removed_document_writes_no_segment(catalog: Catalog) -> None:
    workshop, writer = started(catalog)
    remove(workshop, "handbook", "d0003", "d0004")
    assert writer.written == []
    assert layers(catalog) == [("base", 10)]
    assert len(searchable(catalog, "handbook")) == catalog.collection(TENANT, "handbook").documents == 8


def test_documents_and_passages_are_counted_as_they_come_and_go(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", d0001="one\ntwo\nthree", new="four", empty="")
    remove(workshop, "handbook", "d0002")
    found = catalog.collection(TENANT, "handbook")
    assert (found.documents, found.passages) == (11, 12)
    with catalog.database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(documents)) == 11
    assert (found.segments, found.written) == (2, 14)
    assert found.size is not None


def test_small_deltas_are_merged_and_each_document_is_found_once(catalog: Catalog) -> None:
    workshop, _ = started(catalog, 40)
    expected = texts(40)
    for place in range(12):
        change = {f"d{place % 7:04}": f"changed {place}"}
        expected |= change
        ingest(workshop, "handbook", **change)
        assert searchable(catalog, "handbook") == sorted(expected.values())
    kinds = layers(catalog)
    assert kinds[0] == ("base", 40)
    assert len(kinds) <= 4
    assert sum(size for kind, size in kinds if kind == "delta") <= 9


def test_what_changes_back_is_found_once_too(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    for text in ("other", "text 3", "other", "text 3"):
        ingest(workshop, "handbook", d0003=text)
        assert searchable(catalog, "handbook") == sorted(texts(10, d0003=text).values())


def test_a_large_change_makes_a_new_base(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", **{name: f"new {text}" for name, text in texts(6).items()})
    assert layers(catalog) == [("base", 10)]


def test_a_refresh_and_another_embedder_make_a_new_base(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", d0003="changed")
    catalog.refresh(TENANT, "handbook")
    workshop.work()
    assert layers(catalog) == [("base", 10)]
    other = Workshop(catalog, encoder=HashEncoder("hash-2"))
    other.publish_step.renew_outdated()
    ingest(other, "handbook", d0004="changed too")
    assert layers(catalog) == [("base", 10)]
    assert searchable(catalog, "handbook") == sorted(texts(10, d0003="changed", d0004="changed too").values())


def test_a_generation_of_an_earlier_release_is_followed_by_a_base(catalog: Catalog) -> None:
    class FirstFormat(PlainWriter):
        def segments(self, ref: GenerationRef) -> tuple[SegmentRef, ...]:
            return ()

    started(catalog)
    ingest(Workshop(catalog, writer=FirstFormat()), "handbook", d0003="changed")
    assert layers(catalog) == [("base", 10)]


def test_a_damaged_generation_is_not_built_upon_but_made_anew_from_the_catalog(catalog: Catalog) -> None:
    class Refusing(PlainWriter):
        def segments(self, ref: GenerationRef) -> tuple[SegmentRef, ...]:
            raise Damaged("the manifest is not what was published")

    started(catalog)
    ingest(Workshop(catalog, writer=Refusing()), "handbook", d0003="changed")
    assert layers(catalog) == [("base", 10)]
    assert searchable(catalog, "handbook") == sorted(texts(10, d0003="changed").values())


def test_the_catalog_remembers_which_segments_a_generation_has(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", d0003="changed")
    ref = catalog.current(TENANT, "handbook")
    assert ref is not None
    (first, second) = workshop.keeping.list(TENANT, "handbook")
    assert (first.number, first.current, first.segments, first.written, first.passages) == (2, True, 2, 11, 10)
    assert (second.number, second.current, second.segments, second.written) == (1, False, 1, 10)
    with catalog.database.reading() as connection:
        query = select(generations.c.base_passages, generations.c.delta_passages).order_by(generations.c.number)
        assert [tuple(row) for row in connection.execute(query)] == [(10, 0), (10, 1)]


def test_what_stood_before_is_remembered_as_long_as_a_generation_shows_it(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", d0003="changed")
    ingest(workshop, "handbook", d0003="changed again")
    with catalog.database.reading() as connection:
        query = select(history.c.since, history.c.until).order_by(history.c.since)
        assert [tuple(row) for row in connection.execute(query)] == [(1, 2), (2, 3)]


def test_a_merge_that_began_before_a_compaction_changes_nothing(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", d0003="changed")
    catalog.accept(TENANT, "handbook", uploads(d0004="merged"))
    collection_id = id_of(catalog, "handbook")
    while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
        pass

    class Meanwhile(PlainWriter):
        def write_segment(self, *args: object, **kwargs: object) -> SegmentRef:
            assert Compactions(catalog, Backlog(catalog, "compactor")).begin(collection_id) is not None
            return super().write_segment(*args, **kwargs)  # type: ignore[arg-type]

    with pytest.raises(LostLease, match="compaction began"):
        Workshop(catalog, writer=Meanwhile()).publish_step.publish(collection_id)
    assert number_of(catalog, "handbook") == 2
    Workshop(catalog).work()
    assert layers(catalog) == [("base", 10), ("delta", 1), ("delta", 1)]
    assert searchable(catalog, "handbook") == sorted(texts(10, d0003="changed", d0004="merged").values())


def test_a_fenced_publisher_changes_nothing_beside_one_that_went_on(catalog: Catalog, now: Now) -> None:
    workshop, _ = started(catalog)
    catalog.accept(TENANT, "handbook", uploads(d0003="changed"))
    collection_id = id_of(catalog, "handbook")
    while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
        pass
    slow = Generations(catalog, Backlog(catalog, "slow"))
    late = slow.begin(collection_id)
    assert late is not None
    now.pass_by(catalog.options.lease_seconds + 1)
    assert workshop.publish_step.publish(collection_id) == late.number + 1
    base = workshop.writer.segments(late.previous.ref)[0] if late.previous else None
    made = workshop.publish_step._made(late, base, lambda: True)
    with pytest.raises(LostLease, match="another publisher"):
        slow.commit(late, made)
    assert number_of(catalog, "handbook") == late.number + 1
    assert searchable(catalog, "handbook") == sorted(texts(10, d0003="changed").values())


# SQLite tells how much work a statement was: instructions of its virtual machine, of which each row takes some.


@contextmanager
def instructions(database: Database) -> Iterator[list[int]]:
    counted = [0]
    engine = database._writer.pool  # type: ignore[attr-defined]

    def connected(connection: object, *_: object) -> None:
        def tick() -> int:
            counted[0] += 1
            return 0

        connection.set_progress_handler(tick, 1)  # type: ignore[attr-defined]

    event.listen(engine, "checkout", connected)
    try:
        yield counted
    finally:
        event.remove(engine, "checkout", connected)


def work_of_a_change(options: CatalogOptions, now: Now, number: int) -> tuple[int, list[list[str]]]:
    """How much work the catalog has with publishing one changed document among so many."""
    with Catalog.open(options, now) as catalog:
        workshop, writer = started(catalog, number)
        catalog.accept(TENANT, "handbook", uploads(d0003="changed"))
        collection_id = id_of(catalog, "handbook")
        while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
            pass
        with instructions(catalog.database) as counted:
            assert workshop.publish_step.publish(collection_id) == 2
        return counted[0], writer.written


def test_one_changed_document_is_as_much_work_in_a_large_collection_as_in_a_small_one(
    tmp_path_factory: pytest.TempPathFactory, now: Now
) -> None:
    counted = []
    for number in (20, 1000):
        folder = tmp_path_factory.mktemp("sized")
        options = CatalogOptions(f"sqlite:///{folder / 'catalog.db'}", folder / "generations")
        work, written = work_of_a_change(options, now, number)
        assert written == [["changed"]]
        counted.append(work)
    assert 100 < counted[1] < 1.2 * counted[0] + 100


def test_every_kept_generation_has_its_own_documents(catalog: Catalog) -> None:
    workshop, _ = started(catalog)
    ingest(workshop, "handbook", d0003="changed", new="new")
    remove(workshop, "handbook", "new", "d0001")
    found = [sorted(texts_in(ref.folder)) for ref in catalog.earlier(TENANT, "handbook", before=3)]
    without = {name: text for name, text in texts(10, d0003="changed").items() if name != "d0001"}
    assert searchable(catalog, "handbook") == sorted(without.values())
    assert found == [sorted(texts(10, d0003="changed", new="new").values()), sorted(texts(10).values())]
