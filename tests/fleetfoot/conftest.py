"""A service of fake stages in a thread, so that the command can be called here as a user calls it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from api.assembly import DoorOptions
from fleetfoot.command import app
from pipeline.jobs import NO_TERMS, ItemState, Job, JobItem, JobState, Terms
from pipeline.passages import Upload
from tests.fakes_api import FakeCatalog, Running, Service


class QuickCatalog(FakeCatalog):
    """Does every job at once; documents whose names begin with `bad` fail. While `held`, jobs stay as they come.

    `when_followed` is called once, when a job is read; `when_begun` makes of a retry what it is to be; `ended` has the
    documents of a job by its id.
    """

    def __init__(self, *, held: bool = False) -> None:
        super().__init__()
        self.held = held
        self.ended: dict[str, list[JobItem]] = {}
        self.when_followed: Callable[[], None] | None = None
        self.when_begun: Callable[[Job], Job] = lambda job: job

    def job(self, tenant: str, job_id: str) -> Job:
        hook, self.when_followed = self.when_followed, None
        if hook is not None:
            hook()
        return super().job(tenant, job_id)

    def items(
        self, tenant: str, job_id: str, after: int = 0, limit: int = 500, state: ItemState | None = None
    ) -> Sequence[JobItem]:
        if job_id not in self.ended:
            return super().items(tenant, job_id, after, limit, state)
        found = [each for each in self.ended[job_id] if each.ordinal > after and state in {None, each.state}]
        return found[:limit]

    def retry(self, tenant: str, job_id: str, *, terms: Terms = NO_TERMS) -> Job:
        job = self.when_begun(super().retry(tenant, job_id, terms=terms))
        self.known[job.id] = job
        return job

    def accept(
        self, tenant: str, collection: str, uploads: Sequence[Upload], *, kind: str = "add", terms: Terms = NO_TERMS
    ) -> Job:
        job = super().accept(tenant, collection, uploads, kind=kind, terms=terms)
        if not self.held:
            bad = tuple(
                JobItem(each.name, each.name, ItemState.FAILED, f"'{each.name}' has no text [sic].", ordinal)
                for ordinal, each in enumerate(uploads, start=1)
                if each.name.startswith("bad")
            )
            counts = {ItemState.PUBLISHED: job.total - len(bad), ItemState.FAILED: len(bad)}
            counts = {state: count for state, count in counts.items() if count}
            job = replace(job, state=JobState.DONE, counts=counts, failed=bad, generation=len(self.known))
            self.known[job.id] = job
        return job


Served = Callable[..., AbstractContextManager[Service]]


@contextmanager
def served(options: DoorOptions | None = None, **stages: object) -> Generator[Service, None, None]:
    """The service on a loop of its own; what a test changes in its stages, it changes before it calls."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = Running(options, **{"catalog": QuickCatalog(), **stages})
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(30)
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def service() -> Generator[Service, None, None]:
    with served() as running:
        yield running


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEETFOOT_URL", "FLEETFOOT_KEY", "FLEETFOOT_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")


def fleetfoot(*arguments: object, url: str | None = None) -> Result:
    """`fleetfoot ARGUMENTS`; what it says on standard output and on standard error is kept apart."""
    given = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, [*given, "--url", url] if url else given)
