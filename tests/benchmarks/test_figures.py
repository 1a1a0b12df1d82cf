"""What is counted, and as what; and what is written is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.load.figures import Spread, figures, percentile
from benchmarks.load.plan import Ask, Kind, Pace, Plan, Target
from benchmarks.load.presets import PRESETS, preset
from benchmarks.load.recording import Lap, Recording, Sample, Tokens, Use
from pipeline.errors import InvalidInput, NotFound
from tests.recordings import PLAN, QUERIES, recorded


def sample(number: int, latency: float = 0.05, status: int = 200, **more: object) -> Sample:
    return Sample(number, number % 40, 0.1 * number, 0.0001, latency, status, **more)  # type: ignore[arg-type]


CHATTED = Recording(
    replace(PLAN, ask=Ask(Kind.CHAT, "handbook", deadline_ms=100), seconds=10, told={"machine": "small"}),
    (
        sample(
            0,
            first_event=0.02,
            first_token=0.03,
            gaps=(0.01, 0.02),
            tokens=Tokens(900, 7, 512),
            degraded=("rerank:not_configured",),
            laps=(Lap("encode", 0.001, 0.004), Lap("dense", 0.0, 0.002)),
            uses=(Use("vectors", 1, 1), Use("rerank_scores", 12, 50)),
            found="ab12",
        ),
        sample(1, latency=0.3, first_event=0.2, first_token=0.25, degraded=("rerank:out_of_time", "dense:overloaded")),
        sample(2, latency=0.001, status=503, problem="overloaded"),
        sample(3, latency=60.0, status=0, problem="no_end_in_time"),
        sample(4, latency=0.2, first_token=0.05, problem="broken_off"),
    ),
    {"version": "9.9"},
    {"cores": 2},
    0.25,
    1e9,
)


@given(st.lists(st.floats(0, 1e3), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_is_a_measured_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered)
    assert sum(value < found for value in ordered) < share * len(ordered)


def test_of_fewer_than_a_hundred_the_p99_is_the_highest() -> None:
    spread = Spread.of(range(1, 100))
    assert (spread.p50, spread.p95, spread.p99, spread.highest) == (50, 95, 99, 99)
    assert Spread.of(range(1, 201)).p99 == 198


def test_only_whole_answers_are_answers_and_only_timely_ones_are_in_time() -> None:
    run = figures(CHATTED)
    assert (run.sent, run.answered, run.in_time) == (5, 2, 1)
    assert run.latency.count == 2
    assert run.refusals == {"200 broken_off": 1, "503 overloaded": 1, "none no_end_in_time": 1}
    assert run.goodput == 0.1
    assert run.throughput == 0.2


def test_a_retrieval_is_in_time_when_all_of_it_is() -> None:
    plan = replace(PLAN, ask=Ask(deadline_ms=100))
    run = figures(Recording(plan, (sample(0, 0.09), sample(1, 0.11))))
    assert (run.answered, run.in_time) == (2, 1)


def test_what_is_given_up_without_load_spoils_nothing() -> None:
    run = figures(CHATTED)
    assert run.degraded == {"dense:overloaded": 0.5, "rerank:not_configured": 0.5, "rerank:out_of_time": 0.5}
    assert run.spoiled == 4 / 5, "the first alone is as good as it gets"


def test_tokens_are_those_that_the_model_server_counted() -> None:
    run = figures(CHATTED)
    assert run.tokens_out == 7, "the three chunks are not three tokens"
    assert run.per_token.p50 == pytest.approx(0.03 / 6)
    assert run.gaps.count == 2
    assert (run.tokens_in, run.tokens_cached) == (900, 512)


def test_stages_tell_waiting_and_working_apart_and_caches_their_rates() -> None:
    run = figures(CHATTED)
    assert run.waited["encode"].p50 == 0.001
    assert run.worked["encode"].p50 == 0.004
    assert run.hit_rates == {"rerank_scores": 12 / 50, "vectors": 1.0}


def test_a_run_is_void_when_more_than_one_in_a_hundred_left_late() -> None:
    on_time = [sample(number) for number in range(98)]
    late = [replace(sample(number), late=0.006) for number in (98, 99)]
    assert figures(Recording(PLAN, (*on_time, *late))).void
    assert not figures(Recording(PLAN, (*on_time, late[0], sample(99)))).void


def test_a_thousand_answers_cost_their_share_of_the_hour() -> None:
    run = figures(recorded())
    assert run.cost(7.2) == pytest.approx(1000 * 7.2 / 3600 / run.throughput)
    assert figures(Recording(PLAN, ())).cost(7.2) == float("inf")


def test_what_is_written_is_read_again_and_is_the_same(tmp_path: Path) -> None:
    CHATTED.write(tmp_path / "run.json", figures=figures(CHATTED).to_json())
    again = Recording.read(tmp_path / "run.json")
    assert again.plan == CHATTED.plan
    assert again.factors() == CHATTED.factors()
    assert [replace(it, gaps=(), laps=(), scheduled=0) for it in again.samples] == [
        replace(it, gaps=(), laps=(), scheduled=0) for it in CHATTED.samples
    ]
    assert again.samples[0].laps == CHATTED.samples[0].laps
    assert again.samples[0].gaps == pytest.approx(CHATTED.samples[0].gaps)
    assert figures(again).to_json() == figures(CHATTED).to_json()


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "fleetfoot bench", "version": 99}', "nonsense"])
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InvalidInput):
        Recording.read(tmp_path / "other.json")


def test_neither_key_nor_address_is_shown_by_accident() -> None:
    shown = repr(Target("http://127.0.0.1:8080", "ff-SECRET", {"X-Token": "hidden"}))
    assert "SECRET" not in shown
    assert "hidden" not in shown


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_by_when_how_often_and_how_much(name: str) -> None:
    chosen = preset(name)
    assert chosen.ask.deadline_ms
    assert chosen.pace.rate
    plan = Plan(QUERIES, chosen.ask, chosen.pace, told={"why": "test"})
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    body = json.loads(plan.ask.body("where?"))
    if plan.ask.kind is Kind.CHAT:
        assert body["stream"] is True
        assert body["stream_options"] == {"include_usage": True}
        assert body["max_tokens"] == plan.ask.answer_tokens
        assert len(body["messages"][0]["content"].split()) == plan.ask.system_words
    else:
        assert body == {"query": "where?", "collection": "default", "deadline_ms": 250}


def test_a_preset_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(NotFound, match="search, chat, voice, bulk"):
        preset("loud")


def test_callers_of_a_rate_have_an_interval_and_others_none() -> None:
    assert Pace(20.0, 4).interval == 0.2
    assert Pace(None, 4).interval is None
    assert Pace(20.0).interval is None
