"""Runs in fixed shapes say what plain runs say: on a CPU, where IO binding works too, and on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import Misconfigured
from retrieve.bound_runs import BoundRuns, Shapes
from retrieve.encoder import EncoderOptions, OnnxEncoder
from retrieve.model_folder import ModelFolder
from retrieve.sessions import Device, open_session

NAMES = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"


@pytest.fixture(scope="module")
def runs(default_model: ModelFolder) -> BoundRuns:
    session = open_session(default_model.weights, Device.CPU, 1)
    return BoundRuns(session, NAMES, OUTPUT, Device.CPU, Shapes((1, 2, 4), (8, 16)))


def batch(rows: int, tokens: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(rows * 100 + tokens).integers(1000, 20_000, (rows, tokens))
    mask = np.ones_like(ids)
    mask[-1, tokens // 2 + 1 :] = 0
    return dict(zip(NAMES, (ids, mask, np.zeros_like(ids)), strict=True))


@pytest.mark.parametrize("shape", [(1, 5), (3, 7), (4, 16), (2, 9), (5, 20)])
def test_filling_up_changes_nothing_that_is_read(
    runs: BoundRuns, default_model: ModelFolder, shape: tuple[int, int]
) -> None:
    given = batch(*shape)
    plain = open_session(default_model.weights, Device.CPU, 1).run([OUTPUT], given)[0]
    bound = runs.run(given)
    assert bound.shape == plain.shape
    attended = given["attention_mask"] == 1
    np.testing.assert_allclose(bound[attended], plain[attended], atol=2e-5)


def test_batches_of_many_sizes_meet_few_shapes(default_model: ModelFolder) -> None:
    session = open_session(default_model.weights, Device.CPU, 1)
    runs = BoundRuns(session, NAMES, OUTPUT, Device.CPU, Shapes((1, 2), (8,)))
    runs.warm_up(longest=8)
    assert runs.shapes_met == 2
    for rows in (1, 2):
        for tokens in range(3, 9):
            runs.run(batch(rows, tokens))
    assert runs.shapes_met == 2


def test_no_shape_is_warmed_up_that_no_text_can_have(default_model: ModelFolder) -> None:
    session = open_session(default_model.weights, Device.CPU, 1)
    runs = BoundRuns(session, NAMES, OUTPUT, Device.CPU, Shapes((1,), (8, 16, 32)))
    runs.warm_up(longest=16)
    assert runs.shapes_met == 2


@pytest.mark.gpu
def test_a_gpu_makes_the_vectors_that_the_cpu_makes(default_model: ModelFolder, encoder: OnnxEncoder) -> None:
    try:
        on_gpu = OnnxEncoder.open(default_model, EncoderOptions(Device.CUDA))
    except Misconfigured as error:
        pytest.skip(str(error))
    texts = ["ferry tickets", "a deadline is a promise " * 10, "tram"]
    rows = [encoder.tokenize(text) for text in texts]
    cosines = (on_gpu.encode_ids(rows) * encoder.encode_ids(rows)).sum(axis=1)
    assert cosines.min() > 0.9995
