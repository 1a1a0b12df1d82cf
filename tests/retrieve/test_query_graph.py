"""The graph for queries says nearly what the model says, changes no fingerprint, and is refused where it is wrong."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import Misconfigured
from retrieve.bert import Bert, OtherShape, read_bert
from retrieve.encoder import EncoderOptions, OnnxEncoder
from retrieve.model_folder import ModelFolder
from retrieve.model_library import make_ready_for_queries
from retrieve.onnx_file import FLOAT, INT64, message, node, tensor, value, values
from retrieve.query_graph import make_query_graph
from retrieve.sessions import Device, runtime

CROSS_ENCODER = Path(__file__).parents[2] / "../shared/models/ce-tiny"
QUERIES = (
    "how long does a ferry ticket stay valid",
    "what does the deadline of a request bound when several queries are sent at once, and what is told of the rest",
    "Welche Unterlagen braucht man für einen Bewohnerparkausweis?",
    "0-dimensional biomaterials show inductive properties.",
    "tram",
)


@pytest.fixture(scope="module")
def fast(default_model: ModelFolder) -> OnnxEncoder:
    make_query_graph(default_model)
    return OnnxEncoder.open(default_model, EncoderOptions(fast_queries=True))


def alone(encoder: OnnxEncoder, texts: Sequence[str]) -> np.ndarray:
    return np.concatenate([encoder.encode_ids([encoder.tokenize(text)]) for text in texts])


def test_its_vectors_are_nearly_the_models_own(fast: OnnxEncoder, encoder: OnnxEncoder) -> None:
    cosines = (alone(fast, QUERIES) * alone(encoder, QUERIES)).sum(axis=1)
    assert cosines.min() > 0.99
    assert cosines.mean() > 0.995


def test_a_vector_does_not_depend_on_the_queries_in_its_batch(fast: OnnxEncoder) -> None:
    together = fast.encode_ids([fast.tokenize(text) for text in QUERIES])
    assert (together * alone(fast, QUERIES)).sum(axis=1).min() > 0.9999


def test_a_generation_of_the_model_fits_it_and_a_cache_tells_them_apart(
    fast: OnnxEncoder, encoder: OnnxEncoder
) -> None:
    assert fast.fingerprint == encoder.fingerprint == encoder.made_by
    assert fast.made_by != encoder.made_by
    assert encoder.query_graph == ""


def test_a_model_without_the_graph_encodes_by_its_own_weights(default_model: ModelFolder, tmp_path: Path) -> None:
    for file in (default_model.weights, default_model.tokenizer):
        shutil.copyfile(file, tmp_path / file.name)
    encoder = OnnxEncoder.open(ModelFolder.open(tmp_path), EncoderOptions(fast_queries=True))
    assert encoder.query_graph == ""


def test_a_gpu_that_is_not_there_is_an_error_with_the_graph_too(default_model: ModelFolder, fast: OnnxEncoder) -> None:
    assert fast.query_graph
    if "CUDAExecutionProvider" in runtime.get_available_providers():
        pytest.skip("here CUDA may be there; what is asserted is said of a machine without")
    with pytest.raises(Misconfigured, match="CUDA"):
        OnnxEncoder.open(default_model, EncoderOptions(Device.CUDA, fast_queries=True))


def test_the_graph_of_other_weights_is_not_taken(default_model: ModelFolder, tmp_path: Path) -> None:
    shutil.copytree(default_model.folder, tmp_path / "changed")
    changed = tmp_path / "changed" / "model.onnx"
    changed.write_bytes(changed.read_bytes() + b"\x00")
    assert not ModelFolder.open(tmp_path / "changed").query_weights.is_file()


def test_a_bert_is_read_whatever_exported_it() -> None:
    if not CROSS_ENCODER.is_dir():
        pytest.skip("../shared/models/ce-tiny is not here")
    bert = read_bert(CROSS_ENCODER / "model.onnx")
    assert (len(bert.layers), bert.dimensions, len(bert.positions)) == (2, 128, 512)
    assert all(layer.query.source == layer.key.source == layer.value.source for layer in bert.layers)


def tiny(folder: Path, kind: str) -> ModelFolder:
    """A model that looks up vectors, and nothing else."""
    made = message("Model")
    made.ir_version, made.graph.name = 8, "tiny"
    made.opset_import.add(domain="", version=17)
    made.graph.node.append(node("Gather", ["table", "input_ids"], "last_hidden_state"))
    made.graph.initializer.append(tensor("table", np.eye(8, dtype=np.float32)))
    made.graph.input.append(value("input_ids", INT64, ("batch", "sequence")))
    made.graph.output.append(value("last_hidden_state", FLOAT, ("batch", "sequence", 8)))
    folder.mkdir()
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    (folder / "tokenizer.json").write_text("{}")
    (folder / "config.json").write_text(f'{{"architectures": ["{kind}"]}}')
    return ModelFolder.open(folder)


def test_what_is_no_bert_stays_as_it_is_and_the_log_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = tiny(tmp_path / "tiny", "Model2Vec")
    with pytest.raises(OtherShape, match="0 products"):
        read_bert(model.weights)
    make_ready_for_queries(model)
    assert not model.query_weights.exists()
    assert "encodes queries by its own weights" in caplog.text


def test_a_graph_that_says_something_else_is_refused_and_leaves_nothing(
    default_model: ModelFolder, tmp_path: Path, fast: OnnxEncoder
) -> None:
    """Another activation than a BERT's cannot be seen in its weights: only its vectors tell."""
    assert fast.query_graph
    for file in (default_model.weights, default_model.tokenizer):
        shutil.copyfile(file, tmp_path / file.name)
    model = message("Model")
    model.ParseFromString(default_model.weights.read_bytes())
    for each in model.graph.node:
        if each.op_type == "Erf":
            each.op_type = "Neg"
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    changed = ModelFolder.open(tmp_path)
    with pytest.raises(OtherShape, match="cosine"):
        make_query_graph(changed)
    assert list(changed.query_weights.parent.iterdir()) == []


def test_an_onnx_file_is_read_and_written_without_loss(default_model: ModelFolder) -> None:
    model = message("Model")
    model.ParseFromString(default_model.weights.read_bytes())
    again = message("Model")
    again.ParseFromString(model.SerializeToString())
    assert again == model
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = values(tensor("m", matrix))
    assert found is not None
    np.testing.assert_array_equal(found, matrix)
    assert values(tensor("ids", np.arange(3))) is None


def test_the_parts_of_the_default_model(default_model: ModelFolder) -> None:
    bert: Bert = read_bert(default_model.weights)
    assert (len(bert.layers), bert.words.shape, bert.types.shape) == (6, (30522, 384), (2, 384))
    assert {layer.wider.weights.shape for layer in bert.layers} == {(384, 1536)}
