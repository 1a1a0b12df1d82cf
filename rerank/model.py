"""A cross-encoder on disk: opened, its device verified, warmed up, and run batch by batch."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from tokenizers import Tokenizer

from pipeline.errors import Misconfigured
from pipeline.fingerprints import tokenizer_fingerprint
from rerank.cost import CostModel
from rerank.pairs import Pair, PairTemplate
from rerank.scorer import ScoringFailed, Stopper
from rerank.session import Runs, open_session, runs_of, weights_of
from rerank.shapes import Buckets, Shape

_KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_GPU_BUCKETS = Buckets(step=64, least_rows=8)


@dataclass(frozen=True, slots=True)
class CrossEncoderOptions:
    """Which model, where it runs, and how much it reads.

    `folder` is laid out like a hub repository; `weights` names its ONNX file where the usual ones are not wanted.
    `max_tokens` bounds query and passage together. `threads` is per run; 1 where several lanes share the cores: on two
    idle ones a second took a pair of 128 tokens from 2.7 ms to 2.2 (two layers) and from 49 to 33 (six), for a sixth to
    a quarter more of processor time, and searches and the event loop want the other core.
    """

    folder: Path
    weights: str | None = None
    device: str = "cpu"
    threads: int = 1
    max_tokens: int = 256


class CrossEncoder:
    """An ONNX cross-encoder with one logit per pair. Opened with `CrossEncoder.open(options)`."""

    def __init__(
        self, runs: Runs, inputs: Sequence[str], tokenizer: Tokenizer, options: CrossEncoderOptions, weights: Path
    ) -> None:
        self.options = options
        self.weights = weights
        self._runs = runs
        self._inputs = tuple(inputs)
        self._pad_id = _pad_id(tokenizer)
        self._tokenizer = tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._names = tokenizer_fingerprint(options.folder / "tokenizer.json")
        self._template = PairTemplate.of(tokenizer)
        self._buckets = Buckets() if options.device == "cpu" else _GPU_BUCKETS
        self.cost = CostModel()

    @classmethod
    def open(cls, options: CrossEncoderOptions) -> CrossEncoder:
        """Loads and verifies; a run of its longest pair is made.

        Raises Misconfigured, naming the setting, for a folder that lacks a file, a device that is not there, a graph
        with other inputs or more than one logit, and a `max_tokens` over what the model can read.
        """
        tokenizer_file = options.folder / "tokenizer.json"
        weights = weights_of(options.folder, options.weights, options.device)
        if not tokenizer_file.is_file():
            raise Misconfigured(f"The reranker folder '{options.folder}' has no tokenizer.json. Fetch the model anew.")
        session = open_session(weights, options.device, options.threads)
        inputs = [str(declared.name) for declared in session.get_inputs()]
        if not set(inputs) <= _KNOWN_INPUTS:
            raise Misconfigured(
                f"The reranker '{weights}' wants the inputs {', '.join(inputs)}; fleetfoot can give "
                f"{', '.join(sorted(_KNOWN_INPUTS))}. Export it as a sequence classifier."
            )
        runs = runs_of(session, str(session.get_outputs()[0].name), options.device)
        model = cls(runs, inputs, _tokenizer(tokenizer_file), options, weights)
        model._verify()
        return model

    @property
    def fingerprint(self) -> str:
        """Names whatever a score depends on beside query and passage: weights, tokenizer, tokens read of a pair."""
        digest = hashlib.sha256()
        for file in (self.weights, self.weights.with_name(f"{self.weights.name}_data")):
            if file.is_file():
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        digest.update((self.options.folder / "tokenizer.json").read_bytes())
        digest.update(f"{self.options.max_tokens}".encode())
        return f"{self.options.folder.name}-{digest.hexdigest()[:16]}"

    @property
    def tokenizer(self) -> str:
        return self._names

    @property
    def template(self) -> PairTemplate:
        return self._template

    @property
    def max_tokens(self) -> int:
        return self.options.max_tokens

    @property
    def buckets(self) -> Buckets:
        return self._buckets

    def token_ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def score(self, pairs: Sequence[Pair], stopper: Stopper) -> list[float] | None:
        shape = self._buckets.around(len(pairs), max(len(pair.ids) for pair in pairs), self.max_tokens)
        ids = np.full((shape.rows, shape.length), self._pad_id, dtype=np.int64)
        types = np.zeros_like(ids)
        mask = np.zeros_like(ids)
        mask[len(pairs) :, 0] = 1  # rows that only fill the shape: attention to nothing at all is not a number
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.ids)] = pair.ids
            types[row, : len(pair.ids)] = pair.types
            mask[row, : len(pair.ids)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        try:
            logits = self._runs({name: feed[name] for name in self._inputs}, stopper.options)
        except Exception as error:  # ONNX Runtime's errors share no other class
            if stopper.stopped:
                return None
            raise ScoringFailed(
                f"ONNX Runtime could not score {shape.rows} pairs of {shape.length} tokens: {error}"
            ) from error
        return _scores(logits, shape.rows)[: len(pairs)]

    def warm_up(self, run_tokens: int) -> None:
        """Runs every shape there is, so that the first request is as fast as the next and its cost is known."""
        for shape in self._buckets.warm_ups(self.max_tokens, run_tokens):
            self._run(shape)  # which allocates; the second run tells what it costs
            began = time.perf_counter()
            self._run(shape)
            self.cost.learn(shape, time.perf_counter() - began)

    def _verify(self) -> None:
        try:
            self._run(Shape(2, self.max_tokens))
        except ScoringFailed as failure:
            raise Misconfigured(
                f"The reranker '{self.weights}' cannot be used: {failure} "
                f"Check that it gives one logit per pair and can read max_tokens = {self.max_tokens}."
            ) from failure

    def _run(self, shape: Shape) -> None:
        word = (self.token_ids("passage") or [0])[:1]
        pair = self._template.join(word, word * self.max_tokens, shape.length)
        self.score([pair] * shape.rows, Stopper())


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
