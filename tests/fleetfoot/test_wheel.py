"""The wheel in an empty environment: one name is claimed, and the main job works far from any checkout."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import venv
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from fleetfoot.processes import end
from tests.running_service import ROOT, Running, clean_environment
from workers.broker import EmbeddedRedis

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UNREACHABLE = ("NewConnectionError", "Connection refused", "Name or service not known", "No matching distribution")
NOTE = "# Tides\n\nThe causeway to the bird island is open for two hours around low water.\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git tracks, with rubbish of the kind that a used checkout has."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout, so what belongs to the project cannot be told from what lies around")
    source = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    for folder in ("api", "examples", "examples/clients"):
        (source / folder / "__pycache__").mkdir()
        (source / folder / "__pycache__" / "old.cpython-311.pyc").write_bytes(b"")
    made = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(made)]
    done = subprocess.run(build, cwd=source, check=False, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr[-2000:]
    (built,) = made.glob("*.whl")
    return built


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that holds the lock and the wheel, and a folder far from the checkout to work in."""

    bin: Path
    home: Path

    def environment(self, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
        return {**kept, **(settings or {})}

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """`fleetfoot ARGUMENTS`, by the script that pip wrote, until it ends."""
        return subprocess.run(
            [str(self.bin / "fleetfoot"), *arguments],
            cwd=self.home,
            env=self.environment(settings),
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )

    @contextmanager
    def running(self, what: str, **settings: str) -> Generator[Running, None, None]:
        """`fleetfoot WHAT` until the block ends."""
        log = self.home / f"{what}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(self.bin / "fleetfoot"), what],
                cwd=self.home,
                env=self.environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Running(process, log)
        finally:
            end(process)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    made = Installed(folder / "venv" / "bin", folder / "home")
    made.home.mkdir()
    pip = [str(made.bin / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install"]
    for what in (["--require-hashes", "-r", str(ROOT / "locks" / "cpu.txt")], [str(wheel)]):
        done = subprocess.run(
            [*pip, "--no-deps", *what], env=made.environment(), check=False, capture_output=True, text=True, timeout=600
        )
        if done.returncode != 0 and any(sign in done.stderr for sign in UNREACHABLE):
            pytest.skip(f"the package index cannot be reached: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr[-2000:]
    return made


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_one_name_is_claimed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (top_level,) = [name for name in archive.namelist() if name.endswith(".dist-info/top_level.txt")]
        assert archive.read(top_level).split() == [b"fleetfoot"]
    assert {name.split("/")[0] for name in names(wheel)} == {"fleetfoot", top_level.split("/")[0]}


def test_neither_tests_nor_what_python_leaves_behind_is_in_it(wheel: Path) -> None:
    parts = {part for name in names(wheel) for part in name.split("/")}
    assert parts & {"__pycache__", "tests", "locks", "shared"} == set()
    benchmarks = {name.split("/benchmarks/")[1].split("/")[0] for name in names(wheel) if "/benchmarks/" in name}
    assert benchmarks == {"load"}, "what `fleetfoot bench` needs, and no benchmark of our own"
    assert [part for part in parts if part.startswith("test_") or part.endswith(".pyc")] == []


def test_what_is_not_imported_by_name_is_in_it_too(wheel: Path) -> None:
    inside = names(wheel)
    assert "fleetfoot/app/assembly.py" in inside
    assert "fleetfoot/app/generate/local_server.py" in inside
    assert "fleetfoot/app/examples/demo.toml" in inside
    handbook = {f"fleetfoot/app/{file.relative_to(ROOT).as_posix()}" for file in _files(ROOT / "examples" / "handbook")}
    assert handbook <= set(inside)
    modules = {f"fleetfoot/app/{file.relative_to(ROOT).as_posix()}" for file in _files(ROOT / "ingest")}
    assert {name for name in modules if name.endswith(".py")} <= set(inside)


def test_importing_by_the_rooms_names_stays_free_for_others(installed: Installed) -> None:
    probe = (
        "import fleetfoot, importlib.util as u; print([n for n in ('api', 'context', 'retrieve') if u.find_spec(n)])"
    )
    done = subprocess.run(
        [str(installed.bin / "python"), "-c", probe],
        cwd=installed.home,
        env=installed.environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_command_explains_itself_anywhere(installed: Installed) -> None:
    done = installed.run("--help")
    assert done.returncode == 0, done.stderr
    assert all(
        verb in done.stdout for verb in ("demo", "serve", "work", "ingest", "search", "ask", "bench", "models", "keys")
    )


def test_the_load_generator_is_there_and_starts_in_a_process_of_its_own(installed: Installed) -> None:
    explained = installed.run("bench", "--help")
    assert explained.returncode == 0, explained.stderr
    assert "--baseline" in explained.stdout
    done = installed.run("bench", f"http://127.0.0.1:{free_port()}", "--seconds", "1")
    assert done.returncode == 2
    assert "No fleetfoot answers at http://127.0.0.1:" in done.stderr


def test_a_file_is_ingested_and_asked_about_far_from_any_checkout(installed: Installed) -> None:
    added = installed.run("models", "add", "default", "--data", "data")
    if added.returncode != 0 and "pip could not fetch" in added.stderr:
        pytest.skip(added.stderr.strip())
    assert added.returncode == 0, added.stderr
    (installed.home / "tides.md").write_text(NOTE)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with EmbeddedRedis.open() as redis:
        settings = {"FLEETFOOT_DATA_DIR": "data", "FLEETFOOT_REDIS_URL": redis.url, "FLEETFOOT_PORT": str(port)}
        with installed.running("work", **settings), installed.running("serve", **settings) as api:
            api.said('"listening"')
            assert ready(url)
            sent = installed.run("ingest", "-c", "notes", "tides.md", FLEETFOOT_URL=url)
            assert sent.returncode == 0, sent.stderr
            question = "When is the causeway to the bird island open?"
            asked = installed.run("ask", "-c", "notes", "--deadline-ms", "30000", question, FLEETFOOT_URL=url)
    assert asked.returncode == 0, asked.stderr + api.log[-2000:]
    assert "open for two hours around low water" in asked.stdout
    assert "[1] tides.md" in asked.stdout


def ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=60) as response:
            return bool(response.status == 200)
    except URLError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _files(folder: Path) -> list[Path]:
    return [Path(at, name) for at, _, found in os.walk(folder) if "__pycache__" not in at for name in found]
