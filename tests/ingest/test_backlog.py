"""Leases: what a dead worker held is done by another, what a slow one did late is thrown away."""

from __future__ import annotations

import multiprocessing
import os
import threading

from ingest.backlog import Backlog, Batch
from ingest.catalog import Catalog
from ingest.leases import is_gone, kept, this_process
from ingest.versions import Read, Versions
from pipeline.jobs import ItemState, JobState
from pipeline.passages import Upload
from tests.conftest import Now
from tests.fakes_ingest import LineChunker, PlainParser
from tests.ingesting import TENANT, Workshop, id_of, searchable, uploads

BATCH = Batch(items=10, size=1000)


def read(backlog: Backlog, claim_of: str) -> list[Read]:
    """Takes everything of a collection and reads it, without keeping anything yet."""
    made = []
    for claim in backlog.claim(claim_of, ItemState.ACCEPTED, BATCH):
        document = PlainParser().parse(Upload(claim.name, backlog.content(claim)), claim.document_id)
        made.append(Read(claim, document, LineChunker().chunk(document)))
    return made


def test_nobody_takes_what_somebody_holds(catalog: Catalog) -> None:
    catalog.accept(TENANT, "handbook", uploads(a="one", b="two"))
    collection_id = id_of(catalog, "handbook")
    first = Backlog(catalog, "first").claim(collection_id, ItemState.ACCEPTED, Batch(items=1, size=1000))
    second = Backlog(catalog, "second").claim(collection_id, ItemState.ACCEPTED, BATCH)
    assert ([claim.name for claim in first], [claim.name for claim in second]) == (["a"], ["b"])
    assert Backlog(catalog, "third").claim(collection_id, ItemState.ACCEPTED, BATCH) == ()


def test_a_batch_is_bounded_by_its_size_but_never_empty(catalog: Catalog) -> None:
    catalog.accept(TENANT, "handbook", uploads(a="x" * 5000, b="y" * 400, c="z" * 400, d="w" * 400))
    collection_id, backlog = id_of(catalog, "handbook"), Backlog(catalog, "worker")
    taken = []
    while claims := backlog.claim(collection_id, ItemState.ACCEPTED, BATCH):
        taken.append([claim.name for claim in claims])
    assert taken == [["a"], ["b", "c"], ["d"]]


def test_what_a_slow_worker_brings_after_its_lease_is_thrown_away(catalog: Catalog, now: Now) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"))
    collection_id = id_of(catalog, "handbook")
    slow, quick = Backlog(catalog, "slow"), Backlog(catalog, "quick")
    late = read(slow, collection_id)
    now.pass_by(catalog.options.lease_seconds + 1)
    in_time = read(quick, collection_id)
    Versions(catalog).keep(slow, late, "lines-1")
    assert catalog.job(TENANT, job.id).counts == {ItemState.ACCEPTED: 1}
    Versions(catalog).keep(quick, in_time, "lines-1")
    Versions(catalog).keep(slow, late, "lines-1")
    assert catalog.job(TENANT, job.id).counts == {ItemState.PARSED: 1}
    Workshop(catalog).work()
    assert searchable(catalog, "handbook") == ["one"]


def test_a_heartbeat_keeps_a_long_task_alive(catalog: Catalog, now: Now) -> None:
    catalog.accept(TENANT, "handbook", uploads(a="one"))
    collection_id, backlog = id_of(catalog, "handbook"), Backlog(catalog, "slow")
    claims = backlog.claim(collection_id, ItemState.ACCEPTED, BATCH)
    for _ in range(5):
        now.pass_by(catalog.options.lease_seconds / 2)
        assert backlog.renew(claims)
    assert Backlog(catalog, "other").claim(collection_id, ItemState.ACCEPTED, BATCH) == ()


def test_a_cancelled_item_is_lost_to_its_worker(catalog: Catalog) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"))
    backlog = Backlog(catalog, "worker")
    made = read(backlog, id_of(catalog, "handbook"))
    catalog.cancel(TENANT, job.id)
    assert not backlog.renew([each.claim for each in made])
    Versions(catalog).keep(backlog, made, "lines-1")
    assert catalog.job(TENANT, job.id).state is JobState.CANCELLED


def test_a_document_that_stops_its_worker_each_time_fails_alone(catalog: Catalog, now: Now) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one", b="deadly", c="three"))
    collection_id, backlog = id_of(catalog, "handbook"), Backlog(catalog, "worker")
    for _ in range(20):
        made = read(backlog, collection_id)
        if any(each.claim.name == "b" for each in made):
            now.pass_by(catalog.options.lease_seconds + 1)  # the worker is dead, and tells nobody
        else:
            Versions(catalog).keep(backlog, made, "lines-1")
        backlog.recover()
    Workshop(catalog).work()
    done = catalog.job(TENANT, job.id)
    assert done.counts == {ItemState.PUBLISHED: 2, ItemState.FAILED: 1}
    assert [item.name for item in done.failed] == ["b"]
    assert "begun 3 times" in done.failed[0].reason
    assert searchable(catalog, "handbook") == ["one", "three"]


def test_a_surprise_in_the_parser_is_told_as_the_reason(catalog: Catalog, now: Now) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one", b="SURPRISE", c="three"))
    collection_id, workshop = id_of(catalog, "handbook"), Workshop(catalog)
    surprises = 0
    for _ in range(10):
        try:
            workshop.work()
        except ValueError:
            surprises += 1
        now.pass_by(5)
    done = catalog.job(TENANT, job.id)
    assert (surprises, done.counts) == (3, {ItemState.PUBLISHED: 2, ItemState.FAILED: 1})
    assert done.failed[0].reason.endswith("The last time: ValueError: nobody foresaw this")
    assert workshop.backlog.due() == ()
    assert id_of(catalog, "handbook") == collection_id


def test_what_is_given_back_untouched_counts_as_never_begun(catalog: Catalog) -> None:
    catalog.accept(TENANT, "handbook", uploads(a="one", b="two"))
    collection_id, backlog = id_of(catalog, "handbook"), Backlog(catalog, "worker")
    for _ in range(5):
        claims = backlog.claim(collection_id, ItemState.ACCEPTED, BATCH)
        assert len(claims) == 2
        backlog.give_back(claims)


def test_the_leases_of_a_process_that_is_gone_are_free_at_once(catalog: Catalog) -> None:
    process = multiprocessing.get_context("fork").Process(target=os._exit, args=(0,))
    process.start()
    owner = this_process().replace(f"/{os.getpid()}/", f"/{process.pid}/")
    process.join()
    catalog.accept(TENANT, "handbook", uploads(a="one"))
    collection_id = id_of(catalog, "handbook")
    assert len(Backlog(catalog, owner).claim(collection_id, ItemState.ACCEPTED, BATCH)) == 1
    living = Backlog(catalog)
    assert living.claim(collection_id, ItemState.ACCEPTED, BATCH) == ()
    living.recover()
    assert len(living.claim(collection_id, ItemState.ACCEPTED, BATCH)) == 1
    living.recover()
    assert Backlog(catalog, "other").claim(collection_id, ItemState.ACCEPTED, BATCH) == ()


def test_a_process_knows_itself_to_be_alive_and_nothing_of_other_machines() -> None:
    assert not is_gone(this_process())
    assert not is_gone("another-machine/1/1")


def test_a_heartbeat_ends_when_the_lease_is_lost() -> None:
    beaten = threading.Semaphore(0)
    answers = iter([True, True, False])

    def renew() -> bool:
        beaten.release()
        return next(answers)

    with kept(renew, every=0.001) as held:
        for _ in range(3):
            assert beaten.acquire(timeout=10)
        assert not beaten.acquire(timeout=0.05)
        assert not held()
