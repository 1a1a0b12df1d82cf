"""The command's own promises; what it asks of the service is tested there."""

from __future__ import annotations

from pathlib import Path

from starlette.datastructures import Headers
from typer.testing import CliRunner

from api.callers import Callers
from api.visits import Visit
from fleetfoot.command import app
from fleetfoot.waterfall import kept
from pipeline.passages import Scope


def test_what_keys_new_prints_lets_its_key_in(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["keys", "new", "--tenant", "acme", "--scopes", "read, ingest"])
    table = tmp_path / "keys.toml"
    table.write_text(made.stderr[made.stderr.index("[[keys]]") :])
    headers = Headers({"authorization": f"Bearer {made.stdout.strip()}"})
    caller = Callers.open(table).admit(Visit("id", 0.0), headers)
    assert (caller.tenant, caller.scopes) == ("acme", frozenset({Scope.READ, Scope.INGEST}))


def test_a_scope_that_does_not_exist_is_refused_with_those_that_do() -> None:
    made = CliRunner().invoke(app, ["keys", "new", "--scopes", "read,write"])
    assert made.exit_code == 1
    assert made.stdout == ""
    assert "There is no scope 'write'. Known: read, ingest, admin." in made.stderr


def test_a_port_that_cannot_be_is_refused_before_anything_is_started() -> None:
    assert CliRunner().invoke(app, ["demo", "--port", "99999"]).exit_code == 2


def test_below_the_waterfall_stands_what_was_promised_and_what_came_of_it() -> None:
    timings = {"first_token_ms": 250.7, "deadline_ms": 800.0, "total_ms": 263.1}
    assert kept(timings) == "first token after 251 of 800 ms, all after 263 ms"
    assert kept({**timings, "first_token_ms": None}) == "all after 263 of 800 ms"
    assert kept({**timings, "first_token_ms": None, "deadline_ms": None}) == "all after 263 ms"
