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
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ingest.access import check_access
from ingest.migrating import migrate
from pipeline.errors import Misconfigured, Unavailable
from pipeline.passages import Metadata, Scalar

Record = Row[*tuple[Any, ...]]
Query = Select[*tuple[Any, ...]]

_BUSY_SECONDS = 30.0
_CONNECT_SECONDS = 5
_SCHEMA_LOCK = 0x666C6565746674  # any number that nobody else in the same database locks
# https://www.sqlite.org/rescode.html; the low byte is the primary code
_SQLITE_AWAY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)


class Database:
    """An engine, opened after any fork; safe to use from any thread."""

    def __init__(self, engine: Engine) -> None:
        isolation = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(**isolation)
        self._writer = engine.execution_options(writes=True)

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Generator[Database, None, None]:
        """Connects, and brings the schema up to date. Raises Misconfigured for a URL that cannot work."""
        engine = _engine(url)
        try:
            with Database(engine).writing() as connection:
                if connection.dialect.name == "postgresql":  # on SQLite the write lock does the same
                    connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
                migrate(connection)
            yield cls(engine)
        except Unavailable as error:
            if "unable to open" in error.detail or "connection failed" in error.detail:
                shown = make_url(url).render_as_string(hide_password=True)
                raise Misconfigured(
                    f"The catalog at {shown} cannot be opened: {error.detail}. Check FLEETFOOT_CATALOG_URL, that its "
                    "folder exists and may be written, or that the server runs."
                ) from error
            raise
        finally:
            engine.dispose()

    @contextmanager
    def reading(self) -> Generator[Connection, None, None]:
        """One consistent look. Raises Unavailable while the database is away."""
        with _told_apart(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection, None, None]:
        """All of it or nothing, durable once it returns. Keep it short: on SQLite every other writer waits.

        Raises Unavailable while the database is away or locked; if it went away in the commit, nobody knows whether
        that was done, so whatever is written must bear being written twice.
        """
        with _told_apart(), self._writer.begin() as connection:
            yield connection

    def add_missing(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Inserts the rows whose key is not there yet."""
        if rows:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


@contextmanager
def _told_apart() -> Generator[None, None, None]:
    """Makes Unavailable of what time mends; a statement that cannot work stays what it is."""
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable(str(error)) from error
    except (OperationalError, InterfaceError) as error:
        if not _away(error):
            raise
        raise Unavailable(f"{type(error.orig).__name__}: {error.orig}") from error


def _away(error: DBAPIError) -> bool:
    """Whether the database is at fault. SQLite calls a missing table operational too, so there its code decides."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _SQLITE_AWAY
    return True


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
        patience = {} if "connect_timeout" in parsed.query else {"connect_timeout": _CONNECT_SECONDS}
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=patience)
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
    engine = create_engine(url, connect_args={} if "timeout" in url.query else {"timeout": _BUSY_SECONDS})

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


def packed_labels(labels: Sequence[str]) -> str:
    """Labels as canonical JSON: equal sets give equal text. Raises InvalidInput for what cannot be a label."""
    check_access(labels, "access")
    return json.dumps(sorted(set(labels)), ensure_ascii=False, separators=(",", ":"))


def unpacked_labels(text: str) -> tuple[str, ...]:
    """The opposite of `packed_labels`."""
    return tuple(json.loads(text))


def unpacked(text: str) -> Metadata:
    """The opposite of `packed`; lists come back as tuples."""
    loaded: dict[str, Scalar | list[Scalar]] = json.loads(text)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in loaded.items()}
