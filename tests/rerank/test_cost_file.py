"""Costs outlive a process, and nothing that is wrong with their file stops one."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from rerank.cost import Learned
from rerank.cost_file import CostFile, Machine, processor_name

MACHINE = Machine("ce-tiny-0123", "cpu", 1, "a processor")
LEARNED = Learned((0.0005, 1.3e-05, 3e-08), 0.1, 400)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    CostFile(tmp_path / "costs", MACHINE).write(LEARNED)
    assert CostFile(tmp_path / "costs", MACHINE).read() == LEARNED


def test_nothing_was_kept_yet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert CostFile(tmp_path, MACHINE).read() is None
    assert caplog.records == []


@pytest.mark.parametrize(
    "other",
    [
        replace(MACHINE, model="another"),
        replace(MACHINE, device="cuda"),
        replace(MACHINE, threads=2),
        replace(MACHINE, processor="another"),
    ],
)
def test_another_model_or_machine_has_costs_of_its_own(tmp_path: Path, other: Machine) -> None:
    CostFile(tmp_path, MACHINE).write(LEARNED)
    assert CostFile(tmp_path, other).read() is None
    CostFile(tmp_path, other).write(replace(LEARNED, runs=7))
    assert CostFile(tmp_path, MACHINE).read() == LEARNED


WRONG = [
    "",
    "{",
    "[]",
    "null",
    json.dumps({"format": 1}),
    json.dumps({"format": 2, "machine": MACHINE.described(), "parts": [1, 1, 1], "deviation": 0, "runs": 1}),
    json.dumps({"format": 1, "machine": {"model": "moved here"}, "parts": [1, 1, 1], "deviation": 0, "runs": 1}),
    json.dumps({"format": 1, "machine": MACHINE.described(), "parts": [1, 1], "deviation": 0, "runs": 1}),
    json.dumps({"format": 1, "machine": MACHINE.described(), "parts": [-1, 1, 1], "deviation": 0, "runs": 1}),
    json.dumps({"format": 1, "machine": MACHINE.described(), "parts": [0, 0, 0], "deviation": 0, "runs": 1}),
    json.dumps({"format": 1, "machine": MACHINE.described(), "parts": [1, 1, "NaN"], "deviation": 0, "runs": 1}),
    json.dumps({"format": 1, "machine": MACHINE.described(), "parts": [1, 1, 1], "deviation": 0, "runs": 0}),
    "\x00\xff",
]


@pytest.mark.parametrize("content", WRONG)
def test_a_file_that_is_wrong_is_told_to_the_log_and_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    costs = CostFile(tmp_path, MACHINE)
    costs.file.write_bytes(content.encode("latin-1"))
    with caplog.at_level(logging.WARNING):
        assert costs.read() is None
    assert str(costs.file) in caplog.text
    costs.write(LEARNED)
    assert costs.read() == LEARNED


def test_a_folder_that_cannot_be_written_to_is_told_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "costs").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        CostFile(tmp_path / "costs", MACHINE).write(LEARNED)
    assert "cannot be kept" in caplog.text


def test_nothing_unfinished_is_left(tmp_path: Path) -> None:
    costs = CostFile(tmp_path, MACHINE)
    costs.write(LEARNED)
    assert list(tmp_path.iterdir()) == [costs.file]


def test_the_processor_has_a_name() -> None:
    assert processor_name()
