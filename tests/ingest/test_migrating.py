"""The catalog's schema grows in steps; what was accepted before a step is there after it, on both databases."""

from __future__ import annotations

import importlib

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, func, insert, inspect, select, text

from ingest.catalog import Catalog, CatalogOptions
from ingest.database import Database
from ingest.schema import collections, metadata
from pipeline.errors import Misconfigured
from pipeline.jobs import JobState
from tests.ingesting import TENANT, Workshop, searchable, uploads

RELEASED: MetaData = importlib.import_module("ingest.migrations.versions.v0001_released").released


def test_a_new_database_holds_what_the_code_knows(catalog_options: CatalogOptions) -> None:
    with Database.open(catalog_options.url) as database:
        assert differences(database) == []


def test_a_database_of_the_first_release_is_brought_up_to_date_with_what_it_holds(
    catalog_options: CatalogOptions,
) -> None:
    engine = create_engine(catalog_options.url)
    RELEASED.create_all(engine)
    row = {"id": "c1", "tenant": TENANT, "name": "handbook", "created": 1.0, "fence": 0}
    with engine.begin() as connection:
        connection.execute(insert(collections).values(**row, leased_until=0.0, publish_took=0.0, stale=0))
    engine.dispose()
    with Catalog.open(catalog_options) as catalog:
        assert differences(catalog.database) == []
        job = catalog.accept(TENANT, "handbook", uploads(a="one"))
        Workshop(catalog).work()
        assert catalog.job(TENANT, job.id).state is JobState.DONE
        assert searchable(catalog, "handbook") == ["one"]
        assert [each.created for each in catalog.collections(TENANT)] == [1.0]


def test_a_process_of_the_release_before_may_go_on_writing_rows(catalog_options: CatalogOptions) -> None:
    with Database.open(catalog_options.url) as database, database.writing() as connection:
        for table in RELEASED.sorted_tables:
            missing = {column.name for column in metadata.tables[table.name].columns} - set(table.columns.keys())
            given = {column["name"]: column for column in inspect(connection).get_columns(table.name)}
            assert [n for n in missing if not given[n]["nullable"] and given[n]["default"] is None] == [], table.name


def test_a_second_opening_changes_nothing(catalog_options: CatalogOptions) -> None:
    for _ in range(2):
        with Database.open(catalog_options.url) as database, database.reading() as connection:
            assert connection.scalar(text("SELECT count(*) FROM alembic_version")) == 1
            assert connection.scalar(select(func.count()).select_from(collections)) == 0


def test_a_schema_of_a_later_release_is_refused_with_the_remedy(catalog_options: CatalogOptions) -> None:
    with Database.open(catalog_options.url) as database, database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with (
        pytest.raises(Misconfigured, match=r"schema 9999 of a later release.*Start the release"),
        Database.open(catalog_options.url),
    ):
        pass


def differences(database: Database) -> list[object]:
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, metadata))
