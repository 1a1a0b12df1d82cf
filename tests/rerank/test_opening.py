"""The reranker opens warm, on the device asked for, and leaves what runs cost for the next start."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from pipeline.clock import Budget, Clock, Stage
from rerank.model import CrossEncoder, CrossEncoderOptions
from rerank.opening import RerankerOptions, open_reranker
from rerank.scorer import Stopper
from rerank.session import BoundRuns, PlainRuns, open_session
from rerank.shapes import Shape
from tests.fakes_shelf import asked, candidates_on, shelf_of

MODEL = Path(__file__).parents[2] / "../shared/models/ce-tiny"
pytestmark = pytest.mark.skipif(not (MODEL / "model.onnx").is_file(), reason="../shared/models/ce-tiny is not here")
OPTIONS = CrossEncoderOptions(MODEL, max_tokens=64)
SHELF = shelf_of([5, 40, 3, 17])


def without_cuda() -> str | None:
    """Why the tests for a GPU cannot run here."""
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this ONNX Runtime has no CUDA provider (the gpu extra)"
    if not Path("/dev/nvidiactl").exists():
        return "there is no NVIDIA GPU"
    return None


async def test_what_runs_cost_is_kept_for_the_next_start(tmp_path: Path) -> None:
    for _ in range(2):
        with open_reranker(RerankerOptions(OPTIONS, tmp_path)) as reranker:
            first = reranker.line.scorer.cost.learned.runs
            ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, range(4)), Clock(Budget()))
            assert ranking.degraded == ()
        assert kept(tmp_path)["runs"] > first
    assert first > len(reranker.line.scorer.buckets.warm_ups(64, 256))


def kept(folder: Path) -> dict[str, int]:
    """What the only file in there says."""
    (file,) = folder.iterdir()
    said: dict[str, int] = json.loads(file.read_text())
    return said


def test_costs_that_cannot_be_read_do_not_stop_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_reranker(RerankerOptions(OPTIONS, tmp_path)):
        pass
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    with caplog.at_level(logging.WARNING), open_reranker(RerankerOptions(OPTIONS, tmp_path)) as reranker:
        assert reranker.line.scorer.cost.known
    assert "learned anew" in caplog.text
    assert kept(tmp_path)["format"] == 1


async def test_a_budget_smaller_than_a_pair_begins_nothing() -> None:
    with open_reranker(RerankerOptions(OPTIONS)) as reranker:
        before = reranker.line.counts.runs
        clock = Clock(Budget(shares={Stage.RERANK: 1e-5}))
        ranking = await reranker.rerank(asked("w x y"), candidates_on(SHELF, range(4)), clock)
        assert [one.reason for one in ranking.degraded] == ["out_of_time"]
        assert ranking.degraded[0].detail == "scored 0 of 4"
        assert reranker.line.counts.runs == before


def test_whoever_keeps_scores_is_told_which_model_they_are_of() -> None:
    named: list[str] = []

    class Nothing:
        async def look_up(self, query: object, hashes: object, lap: object) -> dict[int, float]:
            return {}

        def keep(self, query: object, scores: object) -> None: ...

    def known(fingerprint: str) -> Nothing:
        named.append(fingerprint)
        return Nothing()

    with open_reranker(RerankerOptions(OPTIONS), known=known):
        pass
    (name,) = named
    assert name.startswith("ce-tiny-")
    assert name != CrossEncoder.open(CrossEncoderOptions(MODEL, max_tokens=32)).fingerprint


def test_runs_on_bound_memory_give_the_same_scores() -> None:
    session = open_session(MODEL / "model.onnx", "cpu", 1)
    output = session.get_outputs()[0].name
    plain, bound = PlainRuns(session, output), BoundRuns(session, output, "cpu")
    draw = np.random.default_rng(20261)
    for rows, length in ((2, 16), (3, 24), (2, 16), (2, 16)):
        ids = draw.integers(1000, 20_000, (rows, length), np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        np.testing.assert_array_equal(plain(feed, Stopper().options), bound(feed, Stopper().options))


def test_a_bound_run_is_terminated_as_well() -> None:
    session = open_session(MODEL / "model.onnx", "cpu", 1)
    bound = BoundRuns(session, session.get_outputs()[0].name, "cpu")
    ids = np.full((2, 16), 1000, np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    stopper = Stopper()
    stopper.stop()
    with pytest.raises(Exception, match="terminate"):
        bound(feed, stopper.options)


@pytest.mark.gpu
def test_a_gpu_gives_the_scores_of_a_cpu_in_few_shapes() -> None:
    if reason := without_cuda():
        pytest.skip(reason)
    on_cpu = CrossEncoder.open(OPTIONS)
    on_gpu = CrossEncoder.open(CrossEncoderOptions(MODEL, device="cuda", max_tokens=64))
    on_gpu.warm_up(64 * 64)
    pairs = [on_cpu.template.join([2054, 2003], [1000 + number] * number, 64) for number in range(1, 30)]
    assert on_gpu.score(pairs, Stopper()) == pytest.approx(on_cpu.score(pairs, Stopper()), abs=1e-2)
    assert on_gpu.buckets.around(29, 40, 64) == Shape(32, 64)


@pytest.mark.gpu
async def test_requests_share_runs_on_a_gpu() -> None:
    if reason := without_cuda():
        pytest.skip(reason)
    import asyncio

    with open_reranker(RerankerOptions(CrossEncoderOptions(MODEL, device="cuda"))) as reranker:
        rankings = await asyncio.gather(
            *(reranker.rerank(asked("w x y"), candidates_on(SHELF, range(4)), Clock(Budget())) for _ in range(16))
        )
    assert all(ranking.degraded == () for ranking in rankings)
    assert reranker.line.counts.pairs == 64
    assert reranker.line.counts.runs < 16
