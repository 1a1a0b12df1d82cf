"""Real Celery processes, a real Redis-protocol server, real signals: what was accepted is done, once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import select

from ingest.backlog import Backlog, Batch
from ingest.keeping import Keeping
from ingest.schema import collections, items
from pipeline.jobs import ItemState, JobState
from tests.ingesting import TENANT, id_of, searchable
from tests.running_workers import Site, descendants, kill, living, native_libraries
from workers.broker import EmbeddedRedis

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at processes through /proc"),
]


@pytest.fixture(scope="module")
def broker() -> Generator[EmbeddedRedis, None, None]:
    with EmbeddedRedis.open() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, broker: EmbeddedRedis) -> Generator[Site, None, None]:
    flush(broker.url)
    with Site.open(tmp_path / "data", broker.url) as opened:
        yield opened


def flush(url: str) -> None:
    """Everything that Redis knew is gone."""
    with Redis.from_url(url) as client:
        client.flushall()


def texts(number: int, **others: str) -> dict[str, str]:
    return {**{f"d{i:03}": f"text {i}\nmore of {i}" for i in range(number)}, **others}


def expected(sent: dict[str, str]) -> list[str]:
    return sorted(line for text in sent.values() for line in text.splitlines())


async def test_killing_every_process_and_wiping_redis_loses_and_doubles_nothing(site: Site) -> None:
    sent = texts(40, **{f"w{i}": f"WAIT {i}" for i in range(8)})
    with site.workers() as workers:
        job = await site.accept(**sent)
        site.wait_until_reached()
        kill([workers.pid, *descendants(workers.pid)])
        workers.wait()
    assert site.catalog.job(TENANT, job.id).state is JobState.RUNNING
    flush(site.redis_url)
    with site.gate_open(), site.workers():
        done = await site.finished(job.id)
    assert (done.state, done.counts) == (JobState.DONE, {ItemState.PUBLISHED: 48})
    assert searchable(site.catalog, "handbook") == expected(sent)


async def test_a_wiped_redis_and_a_killed_child_cost_a_running_worker_nothing(site: Site) -> None:
    sent = texts(30, **{f"w{i}": f"WAIT {i}" for i in range(4)})
    with site.workers() as workers:
        job = await site.accept(**sent)
        site.wait_until_reached()
        flush(site.redis_url)
        waiting = [claimed_by(site)]
        assert waiting[0] in descendants(workers.pid)
        kill(waiting)
        with site.gate_open():
            done = await site.finished(job.id)
    assert (done.state, done.counts) == (JobState.DONE, {ItemState.PUBLISHED: 34})
    assert searchable(site.catalog, "handbook") == expected(sent)


async def test_a_document_that_kills_its_worker_fails_alone(site: Site) -> None:
    sent = texts(12)
    with site.workers():
        job = await site.accept(**sent, deadly="FATAL")
        done = await site.finished(job.id)
    assert done.counts == {ItemState.PUBLISHED: 12, ItemState.FAILED: 1}
    assert [(item.name, "begun 3 times" in item.reason) for item in done.failed] == [("deadly", True)]
    assert searchable(site.catalog, "handbook") == expected(sent)


async def test_only_pool_processes_load_native_code_and_a_cancelled_job_stops(site: Site) -> None:
    with site.workers() as workers:
        first = await site.finished((await site.accept(a="one")).id)
        assert first.state is JobState.DONE
        parents = [workers.pid, *(each for each in descendants(workers.pid) if descendants(each))]
        pool = [each for each in descendants(workers.pid) if not descendants(each)]
        assert (len(parents), len(pool)) == (4, 4)
        assert [native_libraries(each) for each in parents] == [set()] * 4
        loaded = [native_libraries(each) for each in pool]
        assert loaded.count({"numpy"}) >= 3, "the one that compacts loads nothing before its first work"
        assert all(each <= {"numpy"} for each in loaded)
        job = await site.accept(b="WAIT two")
        site.wait_until_reached()
        site.catalog.cancel(TENANT, job.id)
        with site.gate_open():
            assert (await site.finished((await site.accept(c="three")).id)).state is JobState.DONE
    assert site.catalog.job(TENANT, job.id).state is JobState.CANCELLED
    assert searchable(site.catalog, "handbook") == ["one", "three"]


async def test_a_collection_is_compacted_by_a_process_of_its_own_while_others_publish(site: Site) -> None:
    sent = texts(40)
    keeping = Keeping(site.catalog)
    with site.workers():
        await site.finished((await site.accept(**sent)).id)
        changed = {"d000": "changed", "new": "new"}
        await site.finished((await site.accept(**changed)).id)
        assert keeping.compact(TENANT, "handbook").segments == 2
        late = await site.finished((await site.accept(d001="late")).id)
        assert late.state is JobState.DONE
        await taken_over(site)
    assert searchable(site.catalog, "handbook") == expected(sent | changed | {"d001": "late"})


async def taken_over(site: Site) -> None:
    """Waits until a publish has taken the compacted base over."""
    for _ in range(1200):
        with site.catalog.database.reading() as connection:
            if not connection.scalars(select(collections.c.compact)).one():
                return
        await asyncio.sleep(0.05)
    raise AssertionError(site.log.read_text()[-6000:])


async def test_a_worker_that_must_end_returns_its_task(site: Site) -> None:
    with site.workers(FLEETFOOT_GRACE_SECONDS="0.5") as workers:
        await site.accept(a="WAIT one")
        site.wait_until_reached()
        family = descendants(workers.pid)
    assert workers.returncode == 0
    assert living(family) == []
    collection_id = id_of(site.catalog, "handbook")
    claims = Backlog(site.catalog, "next").claim(collection_id, ItemState.ACCEPTED, Batch(items=1, size=1))
    assert [claim.name for claim in claims] == ["a"]


def claimed_by(site: Site) -> int:
    """The process that holds a document which waits at the gate."""
    with site.catalog.database.reading() as connection:
        owner = connection.scalars(select(items.c.owner).where(items.c.owner.is_not(None))).first()
    assert owner is not None
    process = int(owner.split("/")[1])
    assert process != os.getpid()
    return process


async def test_a_worker_whose_settings_cannot_work_ends_and_says_why(site: Site) -> None:
    with site.workers(FLEETFOOT_STAGES="assembly", FLEETFOOT_EMBEDDER="nowhere") as workers:
        assert workers.wait(60) != 0
    assert "There is no model 'nowhere'" in site.log.read_text()
