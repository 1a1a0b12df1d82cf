"""What the environment says becomes a profile, or a sentence about the variable that cannot be used."""

from __future__ import annotations

import pytest

from api.settings import Settings
from pipeline.clock import Stage
from pipeline.errors import Misconfigured
from pipeline.profile import Profile


def test_shares_are_parts_and_times_are_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETFOOT_SHARES", '{"encode": 0.5, "rerank": 1}')
    monkeypatch.setenv("FLEETFOOT_DEADLINE_MS", "400")
    monkeypatch.setenv("FLEETFOOT_RERANK_BUDGET_MS", "50")
    monkeypatch.setenv("FLEETFOOT_RESERVE_MS", "20")
    budget = Settings.read().profile().budget(0.4)
    assert budget.shares == {Stage.ENCODE: 0.2, Stage.RERANK: 0.05}
    assert budget.reserve == pytest.approx(0.028)


def test_defaults_are_those_of_a_profile_but_for_the_rerank_budget() -> None:
    assert Settings.read().profile().shares == Profile().shares
    assert Settings.read().profile().reserve == Profile().reserve
    assert Settings.read().profile().rerank.budget == 0.15


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"encode": 500}', ("FLEETFOOT_SHARES[encode]=500", "less than or equal to 1")),
        ('{"encode": 0}', ("FLEETFOOT_SHARES[encode]=0", "greater than 0")),
        ('{"encode": "much"}', ("FLEETFOOT_SHARES[encode]=much", "number")),
        ('{"encoding": 0.5}', ("FLEETFOOT_SHARES[encoding]=encoding", "'encode'")),
        ('{"fuse": 0.5}', ("FLEETFOOT_SHARES=", "'fuse' never waits", "rerank")),
        ("0.5", ("FLEETFOOT_SHARES=0.5", "dictionary")),
        ("half", ("FLEETFOOT_SHARES=half", "JSON object")),
    ],
)
def test_a_share_that_cannot_be_one_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FLEETFOOT_SHARES", value)
    with pytest.raises(Misconfigured) as refused:
        Settings.read()
    for word in words:
        assert word in str(refused.value)
