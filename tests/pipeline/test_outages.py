"""What fails again and again is told twice: when it begins and when it is over."""

from __future__ import annotations

import logging

import pytest

from pipeline.errors import Unavailable
from pipeline.outages import Outage

LOG = logging.getLogger("tests.outages")


def test_what_fails_twice_a_second_is_told_once_in_one_line_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(LOG, "It waits")
    outage.over()
    for _ in range(2):
        for port in range(5):
            outage.failed(Unavailable(f"port {port} refused"))
        outage.over()
        outage.over()
    told = "It waits: The catalog does not answer just now. Try again in a few seconds. port 0 refused"
    assert [record.message for record in caplog.records] == [told, "This is over: It waits"] * 2
    assert not any(record.exc_info for record in caplog.records)


def test_what_nobody_foresaw_has_its_traceback_once_also_in_the_middle_of_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage(LOG, "It waits")
    outage.failed(Unavailable(""))
    for _ in range(5):
        outage.failed(KeyError("odd"))
    assert [bool(record.exc_info) for record in caplog.records] == [False, True]
