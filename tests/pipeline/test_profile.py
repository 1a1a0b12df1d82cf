"""How a profile splits a deadline over the stages."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from pipeline.clock import AWAITED, Stage
from pipeline.profile import SHARES, Profile, Rerank, Reserve

DEADLINES = [0.004, 0.02, 0.05, 0.1, 0.25, 1.0, 60.0]


def test_shares_are_parts_of_whatever_deadline_is_asked_for() -> None:
    profile = Profile(shares={Stage.ENCODE: 0.5}, reserve=Reserve(0.0, 0.0))
    assert profile.budget(1.0).shares[Stage.ENCODE] == 0.5
    assert profile.budget(0.2).shares[Stage.ENCODE] == 0.1
    assert profile.budget(inf).shares[Stage.ENCODE] == inf


def test_every_stage_that_waits_has_a_share_and_no_other() -> None:
    assert set(SHARES) == set(AWAITED)


def test_stages_that_follow_each_other_fit_into_the_deadline_when_each_is_cut() -> None:
    stages = (Stage.ADMIT, Stage.CACHE, Stage.ENCODE, Stage.DENSE, Stage.RERANK)
    assert sum(SHARES[stage] for stage in stages) <= 1 + 1e-9
    assert SHARES[Stage.LEXICAL] <= SHARES[Stage.ENCODE] + SHARES[Stage.DENSE] + 1e-9
    assert max(SHARES[Stage.DUPLICATES], SHARES[Stage.SIZES]) <= SHARES[Stage.RERANK]


@pytest.mark.parametrize("deadline", DEADLINES)
def test_a_reserve_never_takes_most_of_a_deadline(deadline: float) -> None:
    assert 0 < Profile().budget(deadline).reserve <= deadline / 4


def test_the_rerank_budget_holds_where_its_share_is_larger() -> None:
    profile = Profile(rerank=Rerank(budget=0.025))
    assert profile.budget(1.0).shares[Stage.RERANK] == 0.025
    assert profile.budget(0.04).shares[Stage.RERANK] == pytest.approx(0.04 * SHARES[Stage.RERANK])
    assert replace(profile, shares={}).budget(1.0).shares[Stage.RERANK] == 0.025
    assert Profile(shares={}).budget(1.0).shares[Stage.RERANK] == inf
