"""Fixtures that more than one room needs."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from ingest.catalog import Catalog, CatalogOptions
from tests.postgres import PostgresServer, missing, postgres_server

# A busy machine makes no example fail, and every run tries the same ones.
hypothesis.settings.register_profile("fleetfoot", deadline=None, derandomize=True)
hypothesis.settings.load_profile("fleetfoot")


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer, None, None]:
    """One server for all tests; skips with the reason where none can run."""
    if reason := missing():
        pytest.skip(reason)
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def catalog_options(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogOptions:
    """An empty catalog of each kind."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'catalog.db'}"
    else:
        url = request.getfixturevalue("postgres").emptied()
    return CatalogOptions(url, tmp_path / "generations")


@pytest.fixture
def now() -> Now:
    """The catalog's time, moved by hand."""
    return Now()


@pytest.fixture
def catalog(catalog_options: CatalogOptions, now: Now) -> Generator[Catalog, None, None]:
    with Catalog.open(catalog_options, now) as opened:
        yield opened


class Now:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time

    def pass_by(self, seconds: float) -> None:
        self.time += seconds
