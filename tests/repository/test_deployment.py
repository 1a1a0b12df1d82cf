"""The container files, checked as far as possible without an engine."""

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from api import health
from api.settings import Settings
from workers.settings import WorkerSettings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
README = (ROOT / "README.md").read_text()


def test_every_setting_in_the_compose_file_is_one_that_the_readme_documents() -> None:
    for name, service in COMPOSE["services"].items():
        for setting in service.get("environment", {}):
            if setting.startswith("FLEETFOOT_"):
                assert f"`{setting}`" in README, (name, setting)


def test_every_service_of_ours_runs_a_real_command() -> None:
    command = (ROOT / "fleetfoot" / "command.py").read_text()
    for service in ("api", "worker", "model"):
        verb = COMPOSE["services"][service]["command"][0]
        assert re.search(rf"def {verb}\(|\"{verb}\"", command), verb


def test_nothing_is_published_beyond_this_machine() -> None:
    for name, service in COMPOSE["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), (name, port)


def test_the_api_has_keys_because_it_listens_on_every_address_inside() -> None:
    api = COMPOSE["services"]["api"]
    assert api["environment"]["FLEETFOOT_HOST"] == "0.0.0.0"
    assert api["secrets"] == ["keys"]
    assert COMPOSE["x-fleetfoot"]["environment"]["FLEETFOOT_KEYS_FILE"] == "/run/secrets/keys"


def test_services_that_are_waited_for_can_tell_that_they_are_healthy() -> None:
    for service in COMPOSE["services"].values():
        for other, condition in service.get("depends_on", {}).items():
            if condition["condition"] == "service_healthy":
                assert "test" in COMPOSE["services"][other]["healthcheck"]


def test_the_image_copies_only_what_exists_and_runs_the_declared_script() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE)
    assert copied
    assert all((ROOT / source).exists() for source in copied)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,) = re.findall(r'ENTRYPOINT \["(\w+)"\]', DOCKERFILE)
    assert entry in scripts
    assert re.search(r'CMD \["serve"\]', DOCKERFILE)
    for device in ("cpu", "gpu"):
        assert (ROOT / "locks" / f"{device}.txt").is_file()
    assert "USER fleetfoot" in DOCKERFILE


def test_what_the_wheel_needs_is_not_kept_from_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = set(project["tool"]["setuptools"]["package-dir"].values()) - {"."}
    needed |= {
        "assembly.py",
        "locks",
        "pyproject.toml",
        project["project"]["readme"],
        *project["project"]["license-files"],
    }
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {name for name in needed if any(fnmatch.fnmatch(name, pattern) for pattern in ignored)} == set()
    assert {".git", ".venv", ".venv-gpu", ".models", ".data", "**/__pycache__"} <= set(ignored)


def test_the_health_check_asks_what_the_api_answers() -> None:
    (asked,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", DOCKERFILE)
    assert asked[0] == str(Settings.model_fields["port"].default)
    assert asked[0] in re.findall(r"^EXPOSE (\d+)", DOCKERFILE, re.MULTILINE)
    assert asked[1] in {getattr(route, "path", "") for route in health.router.routes}


def test_every_setting_of_the_containers_is_one_that_a_process_reads() -> None:
    known = {f"FLEETFOOT_{name.upper()}" for model in (Settings, WorkerSettings) for name in model.model_fields}
    text = DOCKERFILE + (ROOT / "compose.yaml").read_text()
    assert set(re.findall(r"FLEETFOOT_[A-Z_]+", text)) <= known


def test_the_image_keeps_everything_in_its_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    (folder,) = re.findall(r"FLEETFOOT_DATA_DIR=(\S+)", DOCKERFILE)
    (volume,) = re.findall(r"^VOLUME (\S+)", DOCKERFILE, re.MULTILINE)
    assert folder == volume
    monkeypatch.setenv("FLEETFOOT_DATA_DIR", folder)
    assert Settings.read().data_dir == WorkerSettings.read().data_dir == Path(volume)
    for name in ("api", "worker", "model"):
        mounts = {**COMPOSE["x-fleetfoot"], **COMPOSE["services"][name]}["volumes"]
        assert f"data:{volume}" in mounts


def test_the_images_build_tool_is_pinned_and_hashed() -> None:
    (script,) = re.findall(r"sed -n '(/\^setuptools.*?)' locks/dev\.txt", DOCKERFILE)
    found = subprocess.run(
        ["sed", "-n", script, str(ROOT / "locks" / "dev.txt")], check=True, capture_output=True, text=True
    ).stdout
    assert re.fullmatch(r"setuptools==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", found)


def test_compose_names_the_model_that_its_vllm_serves() -> None:
    served = re.search(r":-([\w./-]+)\}", " ".join(COMPOSE["services"]["vllm"]["command"]))
    assert served
    assert f"FLEETFOOT_UPSTREAM_MODEL={served[1]}" in (ROOT / "compose.yaml").read_text()


def test_locks_name_hashes_and_no_addresses() -> None:
    for lock in (ROOT / "locks").glob("*.txt"):
        text = lock.read_text()
        assert "://" not in text, lock
        pinned = [line for line in text.splitlines() if "==" in line and not line.startswith(" ")]
        assert pinned
        assert text.count("--hash=sha256:") >= len(pinned), lock


def test_the_constraints_file_pins_what_the_lock_pins() -> None:
    lock = (ROOT / "locks" / "cpu.txt").read_text()
    pins = {line.split(" ")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if line}
    assert pins == {line.split(" ")[0] for line in lock.splitlines() if "==" in line and not line.startswith(" ")}


def test_every_dependency_has_a_line_that_says_what_it_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (ROOT / "docs" / "dependencies.md").read_text()
    named = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    named += [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
    for requirement in named:
        name = re.split(r"[<>=\[; ]", requirement)[0]
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), name


def test_pip_is_given_paths_in_the_image_and_no_names_to_look_up() -> None:
    """`pip wheel source` fetches whatever an index has under that name; `pip wheel ./source` builds the folder."""
    for command in re.findall(r"pip (?:wheel|install) (.*)", DOCKERFILE):
        words = [word for word in command.split() if word != "\\" and not word.startswith("-")]
        assert all(word.startswith(("./", "locks/")) or word == "wheels" for word in words), words
