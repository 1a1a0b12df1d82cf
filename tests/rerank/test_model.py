"""A real ONNX cross-encoder: loaded from a folder, verified, terminated, its scores independent of the batch."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pipeline.errors import Misconfigured
from pipeline.fingerprints import tokenizer_fingerprint
from rerank.model import CrossEncoder, CrossEncoderOptions
from rerank.pairs import PairTemplate
from rerank.scorer import Stopper
from rerank.shapes import Shape

MODEL = Path(__file__).parents[2] / "../shared/models/ce-tiny"
needs_model = pytest.mark.skipif(not (MODEL / "model.onnx").is_file(), reason="../shared/models/ce-tiny is not here")


@pytest.fixture(scope="module")
def model() -> CrossEncoder:
    model = CrossEncoder.open(CrossEncoderOptions(MODEL))
    model.warm_up(256)
    return model


@needs_model
def test_the_cost_is_known_once_it_is_warm(model: CrossEncoder) -> None:
    assert model.cost.known
    assert model.cost.expected(Shape(1, 200)) > model.cost.expected(Shape(1, 50)) > 0


@needs_model
def test_its_tokenizer_has_the_name_that_a_shelf_would_give_it(model: CrossEncoder) -> None:
    assert model.tokenizer == tokenizer_fingerprint(MODEL / "tokenizer.json")


@needs_model
def test_pairs_are_put_together_as_the_tokenizer_would(model: CrossEncoder) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    query, passage = "What heals a wound?", "Honey has been used on wounds since antiquity."
    truth = tokenizer.encode(query, passage)
    pair = model.template.join(model.token_ids(query), model.token_ids(passage), 256)
    assert list(pair.ids) == truth.ids
    assert list(pair.types) == truth.type_ids


@needs_model
def test_the_passage_is_cut_and_the_query_never(model: CrossEncoder) -> None:
    query, passage = model.token_ids("a b c d e f"), model.token_ids("word " * 100)
    pair = model.template.join(query, passage, 20)
    assert len(pair.ids) == 20
    assert list(pair.ids[1:7]) == query


@needs_model
def test_a_score_does_not_depend_on_what_shares_its_batch(model: CrossEncoder) -> None:
    query = model.token_ids("what heals a wound")
    texts = ["Honey.", "Honey has been used on wounds since antiquity.", "A bridge of steel. " * 20]
    pairs = [model.template.join(query, model.token_ids(text), 256) for text in texts]
    together = model.score(pairs, Stopper())
    alone = [model.score([pair], Stopper()) for pair in pairs]
    assert together == pytest.approx([scores[0] for scores in alone if scores], abs=1e-4)
    assert len(set(together or [])) == 3


@needs_model
def test_a_long_run_is_ended_by_its_stopper(model: CrossEncoder) -> None:
    """Seconds of work, of which nothing comes back."""
    pair = model.template.join([1000], [1000] * 300, 256)
    stopper = Stopper()
    results: list[list[float] | None] = []
    thread = threading.Thread(target=lambda: results.append(model.score([pair] * 400, stopper)))
    thread.start()
    stopper.stop()
    thread.join()
    assert results == [None]


@needs_model
def test_a_stopped_run_leaves_the_model_usable(model: CrossEncoder) -> None:
    stopper = Stopper()
    stopper.stop()
    pair = model.template.join([1000], [1000], 16)
    assert model.score([pair], stopper) is None
    assert model.score([pair], Stopper()) is not None


@needs_model
def test_more_tokens_than_the_model_can_read_are_refused_at_start() -> None:
    with pytest.raises(Misconfigured, match="max_tokens = 600"):
        CrossEncoder.open(CrossEncoderOptions(MODEL, max_tokens=600))


@needs_model
def test_a_device_that_is_not_there_is_an_error_and_never_a_silent_fall_back() -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build of ONNX Runtime has CUDA")
    with pytest.raises(Misconfigured, match="cuda"):
        CrossEncoder.open(CrossEncoderOptions(MODEL, device="cuda"))


@needs_model
def test_an_unknown_device_is_named() -> None:
    with pytest.raises(Misconfigured, match="'tpu'; it can be cpu or cuda"):
        CrossEncoder.open(CrossEncoderOptions(MODEL, device="tpu"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no reranker folder at"):
        CrossEncoder.open(CrossEncoderOptions(tmp_path / "nowhere"))


def test_a_folder_without_weights_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(Misconfigured, match="no ONNX file at all"):
        CrossEncoder.open(CrossEncoderOptions(tmp_path))


@needs_model
def test_a_broken_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").symlink_to((MODEL / "model.onnx").resolve())
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(Misconfigured, match=r"tokenizer\.json' cannot be read"):
        CrossEncoder.open(CrossEncoderOptions(tmp_path))


@needs_model
def test_weights_are_found_in_the_onnx_folder_of_a_hub_repository(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model_O3.onnx").symlink_to((MODEL / "model.onnx").resolve())
    (tmp_path / "tokenizer.json").symlink_to((MODEL / "tokenizer.json").resolve())
    assert CrossEncoder.open(CrossEncoderOptions(tmp_path, max_tokens=64)).max_tokens == 64
    with pytest.raises(Misconfigured, match=r"onnx/model_O3\.onnx"):
        CrossEncoder.open(CrossEncoderOptions(tmp_path, weights="model.onnx"))


def test_roberta_pairs_have_two_separators_and_one_segment() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    template = PairTemplate.of(tokenizer)
    assert (template.opening, template.middle, template.closing) == ((0,), (2, 2), (2,))
    assert template.join([4, 4], [5, 5, 5], 8).ids == (0, 4, 4, 2, 2, 5, 5, 2)
    assert set(template.join([4], [5], 8).types) == {0}
