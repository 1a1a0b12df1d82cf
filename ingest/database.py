"""The catalog's database: SQLite for the processes of one machine, PostgreSQL for several.

On SQLite a write takes its lock when it begins, waits its turn, and is on the disk when it returns; reads never wait.
https://www.sqlite.org/wal.html, https://www.sqlite.org/lang_transaction.html
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, Table, create_engine, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from ingest.schema import metadata
from pipeline.errors import Misconfigured
from pipeline.passages import Metadata, Scalar

Record = Row[*tuple[Any, ...]]
Query = Select[*tuple[Any, ...]]

_BUSY_SECONDS = 30.0
_SCHEMA_LOCK = 0x666C6565746674  # any number that nobody else in the same database locks


class Database:
    """An engine, opened after any fork; safe to use from any thread."""

    def __init__(self, engine: Engine) -> None:
        isolation = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(**isolation)
        self._writer = engine.execution_options(writes=True)

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Generator[Database, None, None]:
        """Connects, and creates the tables that are missing. Raises Misconfigured for a URL that cannot work."""
        engine = _engine(url)
        try:
            with Database(engine).writing() as connection:
                if connection.dialect.name == "postgresql":  # on SQLite the write lock does the same
                    connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
                metadata.create_all(connection)
            yield cls(engine)
        except OperationalError as error:
            if "unable to open" in str(error) or "connection failed" in str(error):
                shown = make_url(url).render_as_string(hide_password=True)
                raise Misconfigured(
                    f"The catalog at {shown} cannot be opened: {error.orig}. Check FLEETFOOT_CATALOG_URL, that its "
                    "folder exists and may be written, or that the server runs."
                ) from error
            raise
        finally:
            engine.dispose()

    @contextmanager
    def reading(self) -> Generator[Connection, None, None]:
        """One consistent look."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection, None, None]:
        """All of it or nothing, durable once it returns. Keep it short: on SQLite every other writer waits."""
        with self._writer.begin() as connection:
            yield connection

    def add_missing(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Inserts the rows whose key is not there yet."""
        if rows:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed)
        if parsed.get_backend_name() != "postgresql":
            raise Misconfigured(
                f"The catalog cannot be kept in '{parsed.get_backend_name()}'. FLEETFOOT_CATALOG_URL takes "
                "sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME."
            )
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError) as error:
        raise Misconfigured(
            "FLEETFOOT_CATALOG_URL is not a database URL. It takes sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME."
        ) from error
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"The catalog's driver is not installed ({error.name}). Install fleetfoot with the extra 'postgres'."
        ) from error


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise Misconfigured("The catalog must be a file: FLEETFOOT_CATALOG_URL takes sqlite:///PATH.")
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # the driver begins nothing by itself; `began` does
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "temp_store=MEMORY", "cache_size=-32000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def began(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def packed(value: Metadata) -> str:
    """Metadata as canonical JSON: equal metadata gives equal text."""
    return json.dumps(dict(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def unpacked(text: str) -> Metadata:
    """The opposite of `packed`; lists come back as tuples."""
    loaded: dict[str, Scalar | list[Scalar]] = json.loads(text)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in loaded.items()}
