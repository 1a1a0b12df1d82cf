"""`fleetfoot refresh` over a real door."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from fleetfoot.client import Refused, connect
from fleetfoot.ingesting import refresh
from pipeline.jobs import NO_TERMS, ItemState, Job, JobState, Terms
from tests.fakes_api import FakeCatalog, Running

QUIET = Console(quiet=True)


class RefreshingCatalog(FakeCatalog):
    """Makes a collection anew at once."""

    def refresh(self, tenant: str, collection: str, *, terms: Terms = NO_TERMS) -> Job:
        job = super().refresh(tenant, collection, terms=terms)
        counts = {ItemState.PUBLISHED: 1, ItemState.UNCHANGED: job.total - 1}
        self.known[job.id] = replace(job, state=JobState.DONE, counts=counts, generation=8)
        return job


async def test_a_refresh_is_followed_until_the_new_generation_is_there() -> None:
    async with Running(catalog=RefreshingCatalog()) as service, connect(service.url) as client:
        renewed = await refresh(client, "handbook", QUIET, wait=True)
        assert (renewed.counts, renewed.generation, renewed.failed) == ({"published": 1, "unchanged": 2}, 8, ())
        assert service.stages.nudge.times == 1


async def test_a_refresh_that_nobody_waits_for_tells_its_job() -> None:
    async with Running() as service, connect(service.url) as client:
        renewed = await refresh(client, "handbook", QUIET, wait=False)
        assert (renewed.jobs, renewed.counts) == (("job0",), {"accepted": 3})


async def test_an_unknown_collection_cannot_be_made_anew() -> None:
    async with Running() as service, connect(service.url) as client:
        with pytest.raises(Refused, match="Known: handbook, laws"):
            await refresh(client, "handbok", QUIET, wait=True)
