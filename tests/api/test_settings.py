"""What the environment says becomes a profile, or a sentence about the variable that cannot be used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.settings import Settings
from pipeline.clock import Stage
from pipeline.errors import Misconfigured
from pipeline.profile import Profile, Rerank


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


def test_a_profile_has_shares_and_a_deadline_of_its_own_and_else_what_the_default_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = '{"quick": {"deadline_ms": 100, "shares": {"lexical": 1}, "rerank": {"depth": 0}, "top_k": 3}, "deep": {}}'
    monkeypatch.setenv("FLEETFOOT_PROFILES", table)
    monkeypatch.setenv("FLEETFOOT_DEADLINE_MS", "400")
    profiles = Settings.read().every_profile()
    assert sorted(profiles) == ["deep", "default", "quick"]
    quick = profiles["quick"]
    assert (quick.name, quick.deadline, quick.shares) == ("quick", 0.1, {Stage.LEXICAL: 1})
    assert (quick.rerank, quick.pack.top_k) == (Rerank(0, budget=0.15), 3)
    assert profiles["deep"] == replace(profiles["default"], name="deep")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"quick": {"shares": {"encode": 2}}}', ("FLEETFOOT_PROFILES[quick][shares][encode]=2", "less than or equal")),
        ('{"quick": {"depth": 0}}', ("FLEETFOOT_PROFILES[quick][depth]=0", "not permitted")),
        ('{"a@b": {}}', ("FLEETFOOT_PROFILES[a@b]=a@b", "pattern")),
        ('{"quick": {"deadline_ms": 60001}}', ("FLEETFOOT_PROFILES[quick]", "at most 60000")),
        ('{"quick": {"rerank": {"depth": 9999}}}', ("FLEETFOOT_PROFILES[quick]", "'rerank.depth' is 9999")),
    ],
)
def test_a_profile_that_cannot_be_one_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FLEETFOOT_PROFILES", value)
    with pytest.raises(Misconfigured) as refused:
        Settings.read().every_profile()
    for word in words:
        assert word in str(refused.value)
