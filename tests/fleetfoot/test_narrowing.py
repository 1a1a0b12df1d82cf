"""What `--filter` understands."""

from __future__ import annotations

import pytest

from fleetfoot.narrowing import filter_of
from pipeline.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "type_", "key", "value"),
    [
        ("year>=2024", "gte", "year", 2024),
        ("year<2024.5", "lt", "year", 2024.5),
        ("tag=hr", "eq", "tag", "hr"),
        ("tag != hr", "ne", "tag", "hr"),
        ("due<=2026-01-31", "lte", "due", "2026-01-31"),
        ("final=true", "eq", "final", True),
        ('code="2024"', "eq", "code", "2024"),
        ("formula=a=b", "eq", "formula", "a=b"),
        ('tag=["hr", "it"]', "in", "tag", ["hr", "it"]),
        ('tag!=["hr"]', "nin", "tag", ["hr"]),
        ("tag=null", "eq", "tag", "null"),
        ("tag=", "eq", "tag", ""),
    ],
)
def test_a_short_form_is_one_comparison(given: str, type_: str, key: str, value: object) -> None:
    assert filter_of([given]) == {"type": type_, "key": key, "value": value}


def test_the_api_s_own_form_goes_as_it_is_and_several_hold_together() -> None:
    assert filter_of(['{"type": "eq", "key": "a", "value": 1}', "b=2"]) == {
        "type": "and",
        "filters": [{"type": "eq", "key": "a", "value": 1}, {"type": "eq", "key": "b", "value": 2}],
    }
    assert filter_of(None) is None
    assert filter_of([]) is None


@pytest.mark.parametrize("given", ["year", "=2024", "{", "year>[1]", ""])
def test_what_is_no_filter_is_refused_with_what_would_be_one(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"filter|list"):
        filter_of([given])
