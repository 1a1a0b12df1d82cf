"""Compaction makes a new base while publishing goes on; whoever dies at it has lost nothing but time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.backlog import Backlog, Due, Step
from ingest.catalog import Catalog, CatalogOptions
from ingest.compacting import Compactions, CompactStep
from ingest.layers import LayerOptions
from ingest.leases import LostLease
from ingest.schema import collections
from pipeline.errors import Conflict, FleetfootError, InvalidInput
from pipeline.ports import SegmentRef
from tests.conftest import Now
from tests.fakes_ingest import HashEncoder, PlainWriter, layers_in
from tests.ingesting import TENANT, Workshop, id_of, ingest, number_of, remove, searchable


class MeanwhileWriter(PlainWriter):
    """Something happens while a base is written."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def write_segment(self, *args: object, **kwargs: object) -> SegmentRef:
        ref = super().write_segment(*args, **kwargs)  # type: ignore[arg-type]
        self._meanwhile()
        return ref


def texts(number: int = 40, **others: str) -> dict[str, str]:
    return {**{f"d{place:02}": f"text {place}" for place in range(number)}, **others}


def layers(catalog: Catalog) -> list[tuple[str, int]]:
    ref = catalog.current(TENANT, "handbook")
    assert ref is not None
    return layers_in(ref.folder)


def changed(catalog: Catalog) -> tuple[Workshop, dict[str, str]]:
    """A base of forty documents and two deltas: a changed document and a new one; one document was removed."""
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", **texts())
    ingest(workshop, "handbook", d00="1\n2\n3\n4", new="new")
    ingest(workshop, "handbook", d01="changed")
    remove(workshop, "handbook", "d02")
    assert layers(catalog) == [("base", 40), ("delta", 5), ("delta", 1)]
    expected = texts(new="new", d01="changed")
    del expected["d02"], expected["d00"]
    return workshop, expected


def lines(expected: dict[str, str]) -> list[str]:
    return sorted([*expected.values(), "1", "2", "3", "4"])


def compacting(catalog: Catalog, meanwhile: Callable[[], object]) -> CompactStep:
    return CompactStep(catalog, MeanwhileWriter(meanwhile), lambda _: None)


def test_a_compacted_collection_is_one_base_with_nothing_dead_in_it(catalog: Catalog) -> None:
    workshop, expected = changed(catalog)
    asked = workshop.keeping.compact(TENANT, "handbook")
    assert (asked.number, asked.current, asked.written, asked.passages) == (4, True, 46, 43)
    workshop.work()
    assert layers(catalog) == [("base", 43)]
    assert searchable(catalog, "handbook") == lines(expected)
    found = catalog.collection(TENANT, "handbook")
    assert (found.documents, found.passages, found.written, found.generation) == (40, 43, 43, 5)
    assert workshop.backlog.due() == ()


def test_what_is_published_meanwhile_lies_upon_the_new_base(catalog: Catalog) -> None:
    workshop, expected = changed(catalog)
    collection_id = id_of(catalog, "handbook")

    def meanwhile() -> None:
        ingest(workshop, "handbook", d03="late", d01="changed twice", later="later")
        remove(workshop, "handbook", "d04", "new")

    assert compacting(catalog, meanwhile).compact(collection_id) == 4
    assert number_of(catalog, "handbook") == 6
    workshop.work()
    expected |= {"d03": "late", "d01": "changed twice", "later": "later"}
    del expected["d04"], expected["new"]
    assert layers(catalog) == [("base", 43), ("delta", 3)]
    assert searchable(catalog, "handbook") == lines(expected)
    assert catalog.collection(TENANT, "handbook").documents == 39
    workshop.keeping.compact(TENANT, "handbook")
    workshop.work()
    assert layers(catalog) == [("base", 42)]
    assert searchable(catalog, "handbook") == lines(expected)


def test_publishing_goes_on_while_a_compacted_base_waits(catalog: Catalog) -> None:
    workshop, expected = changed(catalog)
    collection_id = id_of(catalog, "handbook")
    assert workshop.compact_step.compact(collection_id) == 4
    assert [due.step for due in workshop.backlog.due()] == [Step.PUBLISH]
    ingest(workshop, "handbook", d05="changed")
    assert layers(catalog) == [("base", 43), ("delta", 1)]
    assert searchable(catalog, "handbook") == lines(expected | {"d05": "changed"})


def test_it_is_due_when_too_much_is_dead_or_in_deltas_and_the_collection_is_not_small(
    catalog_options: CatalogOptions, now: Now
) -> None:
    options = CatalogOptions(
        catalog_options.url, catalog_options.generations, layers=LayerOptions(compact_share=0.25, small=10)
    )
    with Catalog.open(options, now) as catalog:
        workshop = Workshop(catalog)
        ingest(workshop, "handbook", **texts(20))
        ingest(workshop, "handbook", d00="changed", d01="changed")
        collection_id = id_of(catalog, "handbook")
        assert layers(catalog) == [("base", 20), ("delta", 2)]
        assert workshop.backlog.due() == ()
        ingest(workshop, "handbook", d02="changed")
        assert layers(catalog) == [("base", 20)], "it was compacted"
        assert workshop.backlog.due() == ()
        assert searchable(catalog, "handbook") == sorted(
            texts(20, d00="changed", d01="changed", d02="changed").values()
        )
        remove(workshop, "handbook", "d03")
        assert workshop.backlog.due() == ()
        assert Due(Step.COMPACT, collection_id, 1) not in workshop.backlog.due()


def test_one_at_a_time_compacts_a_collection(catalog: Catalog, now: Now) -> None:
    changed(catalog)
    collection_id = id_of(catalog, "handbook")
    first, second = (Compactions(catalog, Backlog(catalog, owner)) for owner in ("first", "second"))
    slow = first.begin(collection_id)
    assert slow is not None
    assert second.begin(collection_id) is None
    for _ in range(4):
        now.pass_by(catalog.options.lease_seconds / 2)
        assert first.renew(slow)
    now.pass_by(catalog.options.lease_seconds + 1)
    assert second.begin(collection_id) is not None
    assert not first.renew(slow)
    with pytest.raises(LostLease, match="not compacted"):
        first.finish(slow, "{}")


def test_one_that_died_has_lost_nothing_and_the_next_begins_anew(catalog: Catalog, now: Now) -> None:
    workshop, expected = changed(catalog)
    workshop.keeping.compact(TENANT, "handbook")
    collection_id = id_of(catalog, "handbook")
    assert Compactions(catalog, Backlog(catalog, "dead")).begin(collection_id) is not None
    ingest(workshop, "handbook", d05="changed")
    assert [due.step for due in workshop.backlog.due()] == []
    now.pass_by(catalog.options.lease_seconds + 1)
    workshop.work()
    assert layers(catalog) == [("base", 43)]
    assert searchable(catalog, "handbook") == lines(expected | {"d05": "changed"})


def test_a_failure_leaves_the_collection_as_it_was_and_is_tried_again_later(catalog: Catalog, now: Now) -> None:
    workshop, _ = changed(catalog)
    workshop.keeping.compact(TENANT, "handbook")

    def fail() -> None:
        raise FleetfootError("the disk is full")

    with pytest.raises(FleetfootError, match="full"):
        compacting(catalog, fail).compact(id_of(catalog, "handbook"))
    assert workshop.backlog.due() == ()
    assert number_of(catalog, "handbook") == 4
    now.pass_by(61)
    workshop.work()
    assert layers(catalog) == [("base", 43)]


def test_a_new_base_that_was_published_meanwhile_makes_it_useless(catalog: Catalog) -> None:
    workshop, expected = changed(catalog)

    def meanwhile() -> None:
        catalog.refresh(TENANT, "handbook")
        workshop.work()

    with pytest.raises(LostLease, match="new base"):
        compacting(catalog, meanwhile).compact(id_of(catalog, "handbook"))
    assert layers(catalog) == [("base", 43)]
    assert searchable(catalog, "handbook") == lines(expected)


def test_a_collection_deleted_meanwhile_stays_deleted(catalog: Catalog) -> None:
    changed(catalog)
    step = compacting(catalog, lambda: catalog.delete_collection(TENANT, "handbook"))
    with pytest.raises(LostLease):
        step.compact(id_of(catalog, "handbook"))
    assert catalog.collections(TENANT) == ()


def test_a_compacted_base_that_is_gone_does_not_stop_publishing(catalog: Catalog, now: Now) -> None:
    workshop, expected = changed(catalog)
    collection_id = id_of(catalog, "handbook")
    missing = '{"name": "base-0", "kind": "base", "documents": 1, "passages": 1, "average_length": 1.0}'
    with catalog.database.writing() as connection:
        values = {"compacted": missing, "compacting_from": 4}
        connection.execute(collections.update().where(collections.c.id == collection_id).values(values))
    with pytest.raises(InvalidInput, match="not there"):
        workshop.publish_step.publish(collection_id)
    now.pass_by(10)
    ingest(workshop, "handbook", d05="changed")
    assert searchable(catalog, "handbook") == lines(expected | {"d05": "changed"})


def test_after_a_change_of_embedder_what_the_former_made_is_compacted_no_more(catalog: Catalog) -> None:
    workshop, expected = changed(catalog)
    workshop.keeping.compact(TENANT, "handbook")
    other = Workshop(catalog, encoder=HashEncoder("hash-2"))
    other.publish_step.renew_outdated()
    other.work()
    assert layers(catalog) == [("base", 43)]
    assert searchable(catalog, "handbook") == lines(expected)
    with catalog.database.reading() as connection:
        row = connection.execute(collections.select()).one()
    assert (row.compact, row.compacted, row.compacting_from) == (0, None, None)


def test_there_must_be_something_to_compact(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="")
    with pytest.raises(Conflict, match="no passage"):
        workshop.keeping.compact(TENANT, "handbook")
