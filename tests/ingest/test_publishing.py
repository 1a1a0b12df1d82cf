"""One publisher at a time, and a pointer that moves with everything that it makes true, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.backlog import Backlog
from ingest.catalog import Catalog
from ingest.generations import Generations, Made
from ingest.layers import Stack
from ingest.leases import LostLease
from ingest.working import BatchOptions
from pipeline.errors import FleetfootError
from pipeline.jobs import ItemState, JobState
from pipeline.passages import Upload
from pipeline.ports import Written
from tests.conftest import Now
from tests.fakes_ingest import HashEncoder, PlainWriter, texts_in
from tests.ingesting import TENANT, Workshop, id_of, ingest, searchable, uploads

MADE = Made("0" * 64, Stack(), "hash-1", "lines-1", took=0.0)


class MeanwhileWriter(PlainWriter):
    """Something happens between the files and the row."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def write_generation(self, home: Path, collection: str, number: int, **how: Any) -> Written:
        written = super().write_generation(home, collection, number, **how)
        self._meanwhile()
        return written


def ready(workshop: Workshop, **texts: str) -> str:
    """Documents that only need publishing; returns the collection's id."""
    workshop.catalog.accept(TENANT, "handbook", uploads(**texts))
    collection_id = id_of(workshop.catalog, "handbook")
    while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
        pass
    return collection_id


def publisher(catalog: Catalog, owner: str) -> Generations:
    return Generations(catalog, Backlog(catalog, owner))


def test_a_second_publisher_finds_the_collection_taken(catalog: Catalog) -> None:
    collection_id = ready(Workshop(catalog), a="one")
    assert publisher(catalog, "first").begin(collection_id) is not None
    assert publisher(catalog, "second").begin(collection_id) is None


def test_a_publisher_that_was_thought_dead_changes_nothing(catalog: Catalog, now: Now) -> None:
    collection_id = ready(Workshop(catalog), a="one")
    slow, quick = publisher(catalog, "slow"), publisher(catalog, "quick")
    late = slow.begin(collection_id)
    now.pass_by(catalog.options.lease_seconds + 1)
    plan = quick.begin(collection_id)
    assert late is not None
    assert plan is not None
    assert plan.number == late.number + 1
    with pytest.raises(LostLease, match="another publisher went on"):
        slow.commit(late, MADE)
    assert not slow.renew(late)
    quick.commit(plan, MADE)
    current = catalog.current(TENANT, "handbook")
    assert current is not None
    assert current.number == plan.number
    with pytest.raises(LostLease):
        slow.commit(late, MADE)


def test_a_heartbeat_keeps_the_collection(catalog: Catalog, now: Now) -> None:
    collection_id = ready(Workshop(catalog), a="one")
    slow = publisher(catalog, "slow")
    plan = slow.begin(collection_id)
    assert plan is not None
    for _ in range(5):
        now.pass_by(catalog.options.lease_seconds / 2)
        assert slow.renew(plan)
    assert publisher(catalog, "other").begin(collection_id) is None


def test_a_document_of_a_job_cancelled_meanwhile_is_not_published(catalog: Catalog) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"))
    catalog.accept(TENANT, "handbook", uploads(b="two"))
    workshop = Workshop(catalog, writer=MeanwhileWriter(lambda: catalog.cancel(TENANT, job.id)))
    collection_id = ready(workshop, c="three")
    with pytest.raises(LostLease, match="cancelled"):
        workshop.publish_step.publish(collection_id)
    assert catalog.current(TENANT, "handbook") is None
    Workshop(catalog).work()
    assert searchable(catalog, "handbook") == ["three", "two"]


def test_a_collection_deleted_meanwhile_stays_deleted(catalog: Catalog) -> None:
    workshop = Workshop(catalog, writer=MeanwhileWriter(lambda: catalog.delete_collection(TENANT, "handbook")))
    collection_id = ready(workshop, a="one")
    with pytest.raises(LostLease):
        workshop.publish_step.publish(collection_id)
    assert catalog.collections(TENANT) == ()


def test_what_becomes_ready_meanwhile_is_in_the_next_generation(catalog: Catalog) -> None:
    late = Workshop(catalog)
    workshop = Workshop(catalog, writer=MeanwhileWriter(lambda: ready(late, b="two")))
    assert workshop.publish_step.publish(ready(workshop, a="one")) == 1
    assert searchable(catalog, "handbook") == ["one"]
    late.work()
    assert searchable(catalog, "handbook") == ["one", "two"]


def test_several_jobs_share_one_publish(catalog: Catalog) -> None:
    for name in ("a", "b", "c"):
        catalog.accept(TENANT, "handbook", uploads(**{name: name}))
    Workshop(catalog).work()
    assert {(job.state, job.generation) for job in catalog.jobs(TENANT)} == {(JobState.DONE, 1)}


def test_a_failed_publish_leaves_the_former_generation_and_is_tried_again(catalog: Catalog, now: Now) -> None:
    ingest(Workshop(catalog), "handbook", a="one")

    def fail() -> None:
        raise FleetfootError("the disk is full")

    broken = Workshop(catalog, writer=MeanwhileWriter(fail))
    collection_id = ready(broken, b="two")
    with pytest.raises(FleetfootError, match="full"):
        broken.publish_step.publish(collection_id)
    assert searchable(catalog, "handbook") == ["one"]
    assert broken.backlog.due() == ()
    now.pass_by(10)
    Workshop(catalog).work()
    assert searchable(catalog, "handbook") == ["one", "two"]


def test_another_embedder_makes_every_generation_anew(catalog: Catalog) -> None:
    ingest(Workshop(catalog), "handbook", a="one\ntwo")
    other = Workshop(catalog, encoder=HashEncoder("hash-2"))
    other.publish_step.renew_outdated()
    other.work()
    ref = catalog.current(TENANT, "handbook")
    assert ref is not None
    assert '"embedder": "hash-2"' in (ref.folder / "manifest.json").read_text()
    assert sorted(texts_in(ref.folder)) == ["one", "two"]
    assert sorted(other.encoder.encoded) == ["one", "two"]


def test_a_collection_under_steady_change_is_published_now_and_then(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog, options=BatchOptions())
    collection_id = ready(workshop, a="one")
    now.pass_by(0.001)  # jobs of one instant have no order
    catalog.accept(TENANT, "handbook", [Upload("b", b"two")])
    assert [due.step for due in workshop.backlog.due()] == ["parse"]
    now.pass_by(catalog.options.publish_seconds)
    assert [due.step for due in workshop.backlog.due()] == ["publish", "parse"]
    workshop.publish_step.publish(collection_id)
    (_, first) = catalog.jobs(TENANT)
    assert first.counts == {ItemState.PUBLISHED: 1}
