"""`fleetfoot bench` as a user calls it: a real generator in a process of its own, over a real door."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from benchmarks.load.climbing import Climb
from benchmarks.load.comparing import compare
from benchmarks.load.figures import figures
from benchmarks.load.presets import PRESETS
from benchmarks.load.recording import Recording
from fleetfoot.benching import NOT_COMPARABLE, NOT_MEASURED, REGRESSION, VOID, Measured
from tests.fakes_api import Service
from tests.fleetfoot.conftest import fleetfoot
from tests.recordings import recorded

SHORT = ("--rate", 40, "--seconds", 1, "--warm-up", 0.2, "--connections", 4, "--deadline-ms", 5000)


def bench(service: Service, *options: object) -> Result:
    return fleetfoot("bench", service.url, "-c", "handbook", *SHORT, *options)


def shown(done: Result) -> Result:
    """A run whose figures are shown: on a busy machine they may be void, which is said and changes nothing else."""
    assert done.exit_code in {0, VOID}, done.stderr
    return done


def unless_void(done: Result) -> Result:
    if done.exit_code == VOID:
        pytest.skip("this machine was too busy to send on time, and the command said so")
    return done


def test_a_run_shows_its_stages_its_tail_and_what_it_cost(service: Service, tmp_path: Path) -> None:
    done = shown(bench(service, "--price-per-hour", 2, "--out", tmp_path / "run.json"))
    for word in (
        "open loop, Poisson arrivals, 40/s",
        "waited p50",
        "rerank",
        "generator's lateness",
        "in time",
        "at 2",
    ):
        assert word in done.stdout
    recording = Recording.read(tmp_path / "run.json")
    assert len(recording.samples) == len(recording.plan.schedule())
    assert all(sample.answered for sample in recording.samples)
    assert service.url not in (tmp_path / "run.json").read_text()


def test_for_programs_there_is_one_object(service: Service) -> None:
    done = shown(bench(service, "--preset", "voice", "--json"))
    told = json.loads(done.stdout)
    assert told["factors"]["ask.answer_tokens"] == 60
    assert told["figures"]["first_token"]["count"] == told["figures"]["answered"] > 0
    assert done.stderr == ""


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_asks_what_the_service_understands(service: Service, preset: str) -> None:
    done = shown(bench(service, "--preset", preset, "--json"))
    told = json.loads(done.stdout)["figures"]
    assert told["answered"] == told["sent"] > 0
    assert told["refusals"] == {}


def test_the_same_again_is_no_regression_and_a_much_quicker_past_is(service: Service, tmp_path: Path) -> None:
    first = unless_void(bench(service, "--out", tmp_path / "run.json"))
    assert first.exit_code == 0, first.stderr
    once = Recording.read(tmp_path / "run.json")
    for name, speed in (("slow", 0.001), ("quick", 1000)):
        samples = tuple(replace(each, latency=each.latency / speed) for each in once.samples)
        replace(once, samples=samples).write(tmp_path / f"{name}.json")
    same = unless_void(bench(service, "--baseline", tmp_path / "slow.json"))
    assert same.exit_code == 0, same.stdout
    assert "changed: nothing that is known of" in same.stdout
    worse = unless_void(bench(service, "--baseline", tmp_path / "quick.json"))
    assert worse.exit_code == REGRESSION
    assert "REGRESSION" in worse.stdout


def test_more_than_one_changed_factor_is_refused_before_anything_is_sent(service: Service, tmp_path: Path) -> None:
    recorded().write(tmp_path / "old.json")
    done = bench(service, "--baseline", tmp_path / "old.json", "--queries", _queries(tmp_path))
    assert done.exit_code == NOT_COMPARABLE
    assert "factors changed" in done.stderr
    assert done.stdout == ""


def test_a_closed_loop_is_called_one_and_uncorrected(service: Service) -> None:
    done = shown(fleetfoot("bench", service.url, "-c", "handbook", "--callers", 2, "--seconds", 0.5, "--warm-up", 0.1))
    assert "closed loop, 2 callers" in done.stdout
    assert "uncorrected" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--preset", "loud"), "There is no preset 'loud'"),
        (("--queries", "nowhere.txt"), "nowhere.txt"),
        (("--baseline", "nowhere.json"), "nowhere.json"),
        (("--field", "rerank"), "NAME=VALUE"),
        (("--field", "rerank={"), "is no JSON"),
        (("--collection", "handbok"), "Known: handbook"),
        (("--find-rate", "--callers", "3"), "open loop"),
    ],
)
def test_what_cannot_be_measured_says_why_in_one_sentence(
    service: Service, options: tuple[str, ...], said: str
) -> None:
    done = bench(service, *options)
    assert done.exit_code == NOT_MEASURED
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_void_run_is_neither_good_nor_bad() -> None:
    late = recorded(noise=2, slower=3, change=lambda it: replace(it, late=0.02))
    comparison = compare(recorded(noise=1), late)
    assert comparison.regressed
    assert Measured(late, figures(late), None, comparison).status() == VOID


def test_a_climb_that_found_no_rate_measured_nothing() -> None:
    run = recorded()
    assert Measured(run, figures(run), Climb(0.0, (), run, limited_by_generator=False), None).status() == NOT_MEASURED


def _queries(folder: Path) -> Path:
    file = folder / "queries.txt"
    file.write_text("\n".join(recorded().plan.queries))
    return file
