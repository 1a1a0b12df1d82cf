"""The container files, checked as far as possible without an engine."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
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
    dockerfile = (ROOT / "Dockerfile").read_text()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,) = re.findall(r'ENTRYPOINT \["(\w+)"\]', dockerfile)
    assert entry in scripts
    for device in ("cpu", "gpu"):
        assert (ROOT / "locks" / f"{device}.txt").is_file()
    assert "USER fleetfoot" in dockerfile


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
