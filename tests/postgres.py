"""A PostgreSQL server of the tests' own, where a server binary is on this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

USER = "fleetfoot"


class PostgresServer:
    """One database, empty again for each test that asks: four times quicker than a database each."""

    def __init__(self, port: int) -> None:
        self._port = port

    def emptied(self) -> str:
        """The URL of the database, which nobody else may be using."""
        with psycopg.connect(f"host=127.0.0.1 port={self._port} user={USER} dbname=postgres", autocommit=True) as link:
            link.execute("DROP SCHEMA public CASCADE")
            link.execute("CREATE SCHEMA public")
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self._port}/postgres"


def missing() -> str:
    """Why no server can be started here; empty when one can."""
    if _binary("initdb") is None or _binary("postgres") is None:
        return "no PostgreSQL server binary (initdb, postgres) is installed"
    if os.geteuid() == 0 and (_unprivileged() is None or shutil.which("setpriv") is None):
        return "PostgreSQL refuses to run as root, and there is no user 'postgres' or no setpriv"
    return ""


@contextmanager
def postgres_server() -> Generator[PostgresServer, None, None]:
    """Runs a server on a free loopback port, in a folder that is deleted with it."""
    with tempfile.TemporaryDirectory(prefix="fleetfoot-pg-") as place:
        folder, user = Path(place), _unprivileged()
        prefix: list[str] = []
        if os.geteuid() == 0 and user is not None:
            shutil.chown(folder, user.pw_uid, user.pw_gid)
            prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        data = folder / "data"
        initdb = [
            *prefix,
            str(_binary("initdb")),
            "-D",
            str(data),
            "-A",
            "trust",
            "-U",
            USER,
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        port = _free_port()
        settings = [
            "fsync=off",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={folder}",
            "max_connections=50",
        ]
        command = [*prefix, str(_binary("postgres")), "-D", str(data), "-p", str(port)]
        for setting in settings:
            command += ["-c", setting]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            _wait_until_ready(process, port)
            yield PostgresServer(port)
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: nobody will read what it wrote
            process.wait(20)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(300):
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user={USER} dbname=postgres").close()
            return
        except psycopg.OperationalError:
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            break
    raise RuntimeError("the PostgreSQL server did not start")


def _binary(name: str) -> str | None:
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(versions[0]) if versions else None)


def _unprivileged() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
