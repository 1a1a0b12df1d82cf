"""Brings a catalog's database to the schema of this release: Alembic's steps in `migrations/`, in one transaction.

https://alembic.sqlalchemy.org/en/latest/cookbook.html#connection-sharing
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect, text

from pipeline.errors import Misconfigured

_FOLDER = Path(__file__).parent / "migrations"
_RELEASED = "0001"  # what a database holds that has tables and no version
_one_at_a_time = threading.Lock()  # Alembic keeps the migration that runs in a module of its own
_log = logging.getLogger(__name__)


def migrate(connection: Connection) -> None:
    """Runs the steps that are missing; nothing is done where there are none. Call it under the schema lock.

    Raises Misconfigured for a database that a later release has migrated.
    """
    steps = ScriptDirectory(str(_FOLDER))
    newest, at = steps.get_current_head(), _version(connection)
    if at == newest:
        return
    if at is not None and not _known(steps, at):
        raise Misconfigured(
            f"The catalog has the schema {at} of a later release; this one knows schemas up to {newest}. Start the "
            "release that has migrated it, or restore the database from a copy."
        )
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    with _one_at_a_time:
        if at is None and inspect(connection).has_table("collections"):
            command.stamp(config, _RELEASED)
        command.upgrade(config, "head")
    _log.info("The catalog's schema is %s now; it was %s.", newest, at or "without a version")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _known(steps: ScriptDirectory, version: str) -> bool:
    try:
        steps.get_revision(version)
    except CommandError:
        return False
    return True
