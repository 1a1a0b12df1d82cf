"""A cross-encoder on disk: opened, its device verified, warmed up, and run batch by batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # it ships no types
from tokenizers import Tokenizer

from pipeline.errors import Misconfigured
from pipeline.fingerprints import tokenizer_fingerprint
from rerank.cost import CostModel
from rerank.pairs import Pair, PairTemplate
from rerank.scorer import ScoringFailed, Stopper

_ort: Any = onnxruntime
_KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
# Full weights last on a CPU and first on a GPU, where int8 graphs made for AVX are slow or refused.
_WEIGHTS = {
    "cpu": ("model.onnx", "onnx/model_qint8_avx2.onnx", "onnx/model_quantized.onnx", "onnx/model.onnx"),
    "cuda": ("model.onnx", "onnx/model.onnx", "onnx/model_fp16.onnx"),
}
_WARM_UP_LENGTHS = (32, 64, 128, 192, 32, 64, 128, 192)


@dataclass(frozen=True, slots=True)
class CrossEncoderOptions:
    """Which model, where it runs, and how much it reads.

    `folder` is laid out like a hub repository; `weights` names its ONNX file where the usual ones are not wanted.
    `max_tokens` bounds query and passage together. `threads` is per run; 1 where several lanes share the cores.
    """

    folder: Path
    weights: str | None = None
    device: str = "cpu"
    threads: int = 1
    max_tokens: int = 256


class CrossEncoder:
    """An ONNX cross-encoder with one logit per pair. Opened with `CrossEncoder.open(options)`."""

    def __init__(self, session: Any, tokenizer: Tokenizer, fingerprint: str, max_tokens: int, pad_id: int) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._max_tokens = max_tokens
        self._pad_id = pad_id
        self._template = PairTemplate.of(tokenizer)
        self._cost = CostModel()
        self._inputs = tuple(str(declared.name) for declared in session.get_inputs())
        self._output = str(session.get_outputs()[0].name)

    @classmethod
    def open(cls, options: CrossEncoderOptions) -> CrossEncoder:
        """Loads, verifies and warms up, so that the first request is as fast as the next and its cost is known.

        Raises Misconfigured, naming the setting, for a folder that lacks a file, a device that is not there, a graph
        with other inputs or more than one logit, and a `max_tokens` over what the model can read.
        """
        tokenizer_file = options.folder / "tokenizer.json"
        weights = _weights(options)
        if not tokenizer_file.is_file():
            raise Misconfigured(f"The reranker folder '{options.folder}' has no tokenizer.json. Fetch the model anew.")
        session = _session(weights, options)
        tokenizer = _tokenizer(tokenizer_file)
        pad_id = _pad_id(tokenizer)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        model = cls(session, tokenizer, tokenizer_fingerprint(tokenizer_file), options.max_tokens, pad_id)
        model._verify(weights)
        return model

    @property
    def tokenizer(self) -> str:
        return self._fingerprint

    @property
    def template(self) -> PairTemplate:
        return self._template

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def cost(self) -> CostModel:
        return self._cost

    def token_ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        longest = max(len(pair.ids) for pair in pairs)
        ids = np.full((len(pairs), longest), self._pad_id, dtype=np.int64)
        types = np.zeros_like(ids)
        mask = np.zeros_like(ids)
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.ids)] = pair.ids
            types[row, : len(pair.ids)] = pair.types
            mask[row, : len(pair.ids)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        try:
            (logits,) = self._session.run([self._output], {name: feed[name] for name in self._inputs}, stopper.options)
        except Exception as error:  # ONNX Runtime's errors share no other class
            if stopper.stopped:
                return None
            raise ScoringFailed(
                f"ONNX Runtime could not score {len(pairs)} pairs of {longest} tokens: {error}"
            ) from error
        return _scores(logits, len(pairs))

    def _verify(self, weights: Path) -> None:
        if not set(self._inputs) <= _KNOWN_INPUTS:
            raise Misconfigured(
                f"The reranker '{weights}' wants the inputs {', '.join(self._inputs)}; fleetfoot can give "
                f"{', '.join(sorted(_KNOWN_INPUTS))}. Export it as a sequence classifier."
            )
        try:
            self._warm_up()
        except ScoringFailed as failure:
            raise Misconfigured(
                f"The reranker '{weights}' cannot be used: {failure} "
                f"Check that it gives one logit per pair and can read max_tokens = {self._max_tokens}."
            ) from failure

    def _warm_up(self) -> None:
        word = (self.token_ids("passage") or [0])[:1]
        stopper = Stopper()
        self.score([self._template.join(word, word * self._max_tokens, self._max_tokens)] * 2, stopper)
        for length in _WARM_UP_LENGTHS:
            pair = self._template.join(word, word * self._max_tokens, min(length, self._max_tokens))
            began = time.perf_counter()
            self.score([pair], stopper)
            self._cost.learn(len(pair.ids), time.perf_counter() - began)


def _weights(options: CrossEncoderOptions) -> Path:
    if not options.folder.is_dir():
        raise Misconfigured(f"There is no reranker folder at '{options.folder}'. Name one with ONNX weights.")
    found = sorted([*options.folder.glob("*.onnx"), *options.folder.glob("onnx/*.onnx")])
    usual = [options.weights] if options.weights else _WEIGHTS.get(options.device, ())
    for file in [options.folder / name for name in usual] + ([] if options.weights else found):
        if file.is_file():
            return file
    there = ", ".join(file.relative_to(options.folder).as_posix() for file in found) or "no ONNX file at all"
    raise Misconfigured(
        f"The reranker folder '{options.folder}' has no {options.weights or 'model.onnx'}; it has {there}."
    )


def _session(weights: Path, options: CrossEncoderOptions) -> Any:
    provider = _PROVIDERS.get(options.device)
    if provider is None:
        raise Misconfigured(f"The reranker's device is '{options.device}'; it can be {' or '.join(_PROVIDERS)}.")
    remedy = "Install the gpu extra on a machine with an NVIDIA GPU, or set the reranker's device to 'cpu'."
    available = [str(name) for name in _ort.get_available_providers()]
    if provider not in available:
        raise Misconfigured(
            f"The reranker was to run on '{options.device}', but this ONNX Runtime has {', '.join(available)} only. "
            f"{remedy}"
        )
    settings: Any = _ort.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    # Measured with 2 threads: a spinning pool took 14.7 ms where one that sleeps took 7.4.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.log_severity_level = 3
    try:
        session: Any = _ort.InferenceSession(str(weights), settings, providers=[provider])
    except Exception as error:  # ONNX Runtime's errors share no other class
        raise Misconfigured(f"ONNX Runtime cannot load the reranker '{weights}': {error}") from error
    running = list(session.get_providers())
    if running[:1] != [provider]:  # it lists CUDA, falls back to the CPU and logs one line
        raise Misconfigured(
            f"The reranker was to run on '{options.device}', but ONNX Runtime runs it on {running[0]}. {remedy}"
        )
    return session


def _tokenizer(file: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing more special
        raise Misconfigured(f"The reranker's '{file}' cannot be read: {error}. Fetch the model anew.") from error


def _pad_id(tokenizer: Tokenizer) -> int:
    padding = cast("dict[str, Any] | None", tokenizer.padding)
    if padding is not None:
        return int(padding["pad_id"])
    known = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((number for number in known if number is not None), 0)


def _scores(logits: Any, pairs: int) -> list[float]:
    if logits.shape not in {(pairs,), (pairs, 1)}:
        raise ScoringFailed(f"The model gave scores of shape {list(logits.shape)} for {pairs} pairs, not one for each.")
    scores = logits.reshape(pairs).astype(np.float64)
    if not np.isfinite(scores).all():
        raise ScoringFailed(f"The model gave a score that is not a number among {pairs} pairs.")
    return [float(score) for score in scores]
