"""What goes wrong is one sentence on standard error and exit status 1, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fleetfoot.processes import interruptible
from fleetfoot.telling import told
from pipeline.errors import InvalidInput, Misconfigured
from tests.fleetfoot.conftest import fleetfoot
from tests.running_service import fetched_model


@pytest.mark.parametrize("words", [("search", "x"), ("ask", "x"), ("jobs",), ("ingest", __file__)])
def test_a_service_that_is_not_there_is_told_with_how_to_start_it(words: tuple[str, ...]) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers, and nobody else takes it
        taken.bind(("127.0.0.1", 0))
        done = fleetfoot(*words, "--json", url=f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "Nothing answers at" in done.stderr
    assert "`fleetfoot serve`" in done.stderr


@pytest.mark.parametrize(
    ("verb", "name", "value"),
    [
        ("serve", "FLEETFOOT_PORT", "abc"),
        ("serve", "FLEETFOOT_HOST", "0.0.0.0"),
        ("serve", "FLEETFOOT_SHARES", "much"),
        ("work", "FLEETFOOT_PARSERS", "0"),
        ("work", "FLEETFOOT_LOG_LEVEL", "loud"),
    ],
)
def test_a_setting_that_cannot_work_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str, value: str
) -> None:
    monkeypatch.setenv("FLEETFOOT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv(name, value)
    done = fleetfoot(verb)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert value in done.stderr


def test_brackets_in_a_sentence_are_words_and_no_markup() -> None:
    app = typer.Typer()

    @app.command()
    @told
    def fail() -> None:
        raise InvalidInput("'[bold]documents[/bold]' is no place; see [docs].")

    done = CliRunner().invoke(app, [])
    assert done.exit_code == 1
    assert done.stderr == "fleetfoot: '[bold]documents[/bold]' is no place; see [docs].\n"


def test_models_are_listed_for_people_and_for_programs(tmp_path: Path) -> None:
    empty = fleetfoot("models", "list", "--data", tmp_path)
    assert "Add one with `fleetfoot models add default`" in empty.stdout
    assert json.loads(fleetfoot("models", "list", "--json", "--data", tmp_path).stdout) == {"models": []}
    try:
        default = fetched_model()
    except Misconfigured as error:
        pytest.skip(str(error))
    listed = json.loads(fleetfoot("models", "list", "--json", "--data", default.parents[1]).stdout)
    (found,) = [each for each in listed["models"] if each["name"] == "default"]
    assert found["kind"] == "embedder"
    assert found["fingerprint"].startswith("default-")


def test_a_model_that_is_nowhere_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = fleetfoot("models", "add", tmp_path / "empty", "--data", tmp_path / "data", "--json")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("fleetfoot: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_the_second_leaves_the_ending_in_peace(number: signal.Signals) -> None:
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    found = signal.signal(number, usual)  # under nohup SIGHUP is ignored, and stays so
    ended: list[str] = []

    def program() -> None:
        with interruptible():
            try:
                os.kill(os.getpid(), number)
                signal.pause()
            finally:
                os.kill(os.getpid(), number)
                ended.append("all of it")

    try:
        with pytest.raises(KeyboardInterrupt):
            program()
        assert ended == ["all of it"]
        assert signal.getsignal(number) is usual
    finally:
        signal.signal(number, found)


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
