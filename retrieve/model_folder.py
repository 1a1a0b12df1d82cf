"""A model on disk, laid out like a hub repository: ONNX weights, `tokenizer.json`, and what describes them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.errors import Misconfigured
from pipeline.fingerprints import tokenizer_fingerprint

# The order in which weights are looked for: the folder's own choice, then int8 for AVX2, then whatever there is.
WEIGHTS = ("model.onnx", "onnx/model_qint8_avx2.onnx", "onnx/model_quantized.onnx", "onnx/model.onnx")
DESCRIBING = ("tokenizer.json", "config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json")

QUERY_RECIPE = "int8-1"  # changes with what `retrieve.query_graph` makes of the same weights


class ModelKind(StrEnum):
    """What a model is for: one vector per text, or one score per pair of texts."""

    EMBEDDER = "embedder"
    CROSS_ENCODER = "cross-encoder"


class Pooling(StrEnum):
    """How token states become one vector."""

    MEAN = "mean"
    CLS = "cls"


@dataclass(frozen=True)
class ModelFolder:
    """A folder that was looked into; its files are assumed not to change while it is open."""

    folder: Path
    weights: Path

    @classmethod
    def open(cls, folder: Path) -> ModelFolder:
        """Raises Misconfigured, naming the folder and what it lacks."""
        remedy = "Add it with 'fleetfoot models add', or name a folder with model.onnx and tokenizer.json."
        if not folder.is_dir():
            raise Misconfigured(f"There is no model folder at '{folder}'. {remedy}")
        if not (folder / "tokenizer.json").is_file():
            raise Misconfigured(f"The model folder '{folder}' has no tokenizer.json. {remedy}")
        named = [folder / name for name in WEIGHTS]
        for weights in [*named, *sorted(folder.glob("*.onnx")), *sorted(folder.glob("onnx/*.onnx"))]:
            if weights.is_file():
                return cls(folder, weights)
        raise Misconfigured(f"The model folder '{folder}' has no model.onnx and no onnx/model*.onnx. {remedy}")

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.name

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's file."""
        return self.folder / "tokenizer.json"

    @cached_property
    def fingerprint(self) -> str:
        """`name-` and 16 hex digits of the sha256 over weights, tokenizer and description, each with its path."""
        digest = hashlib.sha256()
        described = [self.folder / name for name in DESCRIBING]
        external = self.weights.with_name(self.weights.name + "_data")
        for file in [self.weights, external, *described]:
            if file.is_file():
                with file.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
                digest.update(f"{file.relative_to(self.folder).as_posix()} {content}\n".encode())
        return f"{self.name}-{digest.hexdigest()[:16]}"

    @cached_property
    def query_weights(self) -> Path:
        """Where the graph for queries is or would be (`retrieve.query_graph`): other weights, another file."""
        with self.weights.open("rb") as stream:
            made_from = hashlib.file_digest(stream, "sha256").hexdigest()[:16]
        return self.folder / "queries" / f"{QUERY_RECIPE}-{made_from}.onnx"

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """What `pipeline.fingerprints` says of `tokenizer.json`."""
        return tokenizer_fingerprint(self.tokenizer)

    @cached_property
    def pooling(self) -> Pooling:
        """Mean, unless `1_Pooling/config.json` asks for the first token. Raises Misconfigured for anything else."""
        said = _read_json(self.folder / "1_Pooling" / "config.json")
        modes = [mode for mode, on in said.items() if mode.startswith("pooling_mode_") and on is True]
        modes += [str(said["pooling_mode"])] if "pooling_mode" in said else []  # as of sentence-transformers 6
        if modes in ([], ["pooling_mode_mean_tokens"], ["mean"]):
            return Pooling.MEAN
        if modes in (["pooling_mode_cls_token"], ["cls"]):
            return Pooling.CLS
        raise Misconfigured(
            f"The model '{self.folder}' pools by {', '.join(modes)}; fleetfoot knows the mean of the "
            "tokens and the first token. Choose another model, or export it with its pooling in the graph."
        )

    @cached_property
    def declared_kind(self) -> ModelKind | None:
        """What `config.json` says of the model's head; None where it says nothing."""
        config = _read_json(self.folder / "config.json")
        heads = [str(head) for head in config.get("architectures") or ()]
        if any(head.endswith("ForSequenceClassification") for head in heads):
            return ModelKind.CROSS_ENCODER
        return ModelKind.EMBEDDER if heads else None


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_bytes())
    except ValueError as error:
        raise Misconfigured(f"'{file}' is not JSON: {error}. Fetch the model anew.") from None
    if not isinstance(content, dict):
        raise Misconfigured(f"'{file}' should hold a JSON object. Fetch the model anew.")
    return content  # pyright: ignore[reportUnknownVariableType]  # any JSON object will do
