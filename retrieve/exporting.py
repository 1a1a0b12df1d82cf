"""Turning a model that has only torch weights into ONNX, and proving that both say the same.

Needs the `models` extra (torch, sentence-transformers, onnx), which is imported here and nowhere on a request's path.
"""

from __future__ import annotations

import shutil
import warnings
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import Misconfigured
from retrieve.encoder import OnnxEncoder, open_tokenizer
from retrieve.model_folder import DESCRIBING, ModelFolder, ModelKind
from retrieve.sessions import Device, open_session

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET = 17
LEAST_COSINE = 0.999
MOST_DIFFERENCE = 1e-3  # of a cross-encoder's logits
PROBES = (
    "How long may a request wait before it is given up?",
    "A deadline is a promise.",
    "The ferry to the island leaves at ten past seven, and on Sundays an hour later, unless there is a storm.",
    "Die Fähre zur Insel fährt um zehn nach sieben.",
    "12 kg, 3.5 m, 40 °C",
)


def export(source: Path, folder: Path) -> None:
    """Writes `model.onnx`, the tokenizer and the description of the model in `source` into `folder`.

    Raises Misconfigured without the extra, or when the ONNX model does not say what the torch model says: cosine at
    least .999 for vectors, logits within .001 for pairs.
    """
    torch = extra("torch")
    for name in DESCRIBING:
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, folder / name)
    declared = ModelFolder(folder, folder / "model.onnx").declared_kind
    if declared is ModelKind.CROSS_ENCODER:
        model = extra("sentence_transformers").CrossEncoder(str(source), device="cpu")
        _write_tokenizer(model.tokenizer, folder)
        _write_graph(torch, _transformer(model), "logits", folder / "model.onnx")
        _check_scores(model, ModelFolder.open(folder))
    else:
        model = extra("sentence_transformers").SentenceTransformer(str(source), device="cpu")
        _write_tokenizer(model.tokenizer, folder)
        _write_graph(torch, _transformer(model[0]), "last_hidden_state", folder / "model.onnx")
        _check_vectors(model, ModelFolder.open(folder))


def extra(name: str) -> Any:
    """A module of the `models` extra. Raises Misconfigured, naming the extra, where it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise Misconfigured(
            f"This needs {name}, which is not installed: pip install 'fleetfoot[models]'. Without it, use a model with "
            "ready ONNX files."
        ) from error


def parity(torch_vectors: Any, onnx_vectors: Any) -> float:
    """The least cosine between two sets of L2-normalised vectors, row by row."""
    return float((np.asarray(torch_vectors) * np.asarray(onnx_vectors)).sum(axis=1).min())


def _transformer(module: Any) -> Any:
    """The network beneath sentence-transformers' wrapping, whose name has changed over its versions."""
    for name in ("auto_model", "model"):
        if hasattr(module, name):
            return getattr(module, name)
    raise Misconfigured(f"sentence-transformers wraps its network in a {type(module).__name__}, which is not known.")


def _write_tokenizer(tokenizer: Any, folder: Path) -> None:
    if not (folder / "tokenizer.json").is_file():
        tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))


def _write_graph(torch: Any, network: Any, output: str, file: Path) -> None:
    """Traces the network with free batch and length.

    The tracing exporter is asked for by name: the newer one needs onnxscript, takes half a minute for this model, and
    the check of parity is what counts.
    """

    class Graph(torch.nn.Module):  # type: ignore[misc]  # torch is imported when it is needed
        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            given = dict(zip(INPUTS, (ids, mask, types), strict=True))
            accepted = {name: given[name] for name in INPUTS if name in names}
            return getattr(self.network(**accepted), output)

    graph: Any = Graph()
    graph.network = network.eval()  # as an attribute, so that its weights become the graph's
    names = signature(network.forward).parameters
    example = torch.ones((2, 8), dtype=torch.long)
    free = {name: {0: "batch", 1: "sequence"} for name in INPUTS}
    free[output] = {0: "batch"} if output == "logits" else {0: "batch", 1: "sequence"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecation and of every traced branch
        torch.onnx.export(
            graph,
            (example, example, example * 0),
            str(file),
            input_names=list(INPUTS),
            output_names=[output],
            dynamic_axes=free,
            opset_version=OPSET,
            dynamo=False,
        )


def _check_vectors(model: Any, exported: ModelFolder) -> None:
    encoder = OnnxEncoder.open(exported)
    onnx = encoder.encode_ids([encoder.tokenize(text) for text in PROBES])
    least = parity(model.encode(list(PROBES), normalize_embeddings=True, show_progress_bar=False), onnx)
    if least < LEAST_COSINE:
        raise Misconfigured(
            f"The exported model does not say what '{exported.name}' says: cosine {least:.4f}, and {LEAST_COSINE} is "
            "asked for. Use a model with ready ONNX files."
        )


def _check_scores(model: Any, exported: ModelFolder) -> None:
    """Compares logits, before any activation, pair by pair."""
    tokenizer = open_tokenizer(exported)
    session = open_session(exported.weights, Device.CPU, 1)
    wanted = [port.name for port in session.get_inputs()]
    torch = extra("torch")
    pairs = [(PROBES[0], text) for text in PROBES]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    found: list[float] = []
    for query, text in pairs:
        encoding = tokenizer.encode(query, text)
        rows = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        feed = {name: np.array([rows[name]], np.int64) for name in wanted}
        found.append(float(session.run(None, feed)[0].reshape(-1)[0]))
    worst = float(np.abs(np.asarray(expected).reshape(-1) - np.array(found)).max())
    if worst > MOST_DIFFERENCE:
        raise Misconfigured(
            f"The exported model does not score what '{exported.name}' scores: logits differ by {worst:.4f}, and "
            f"{MOST_DIFFERENCE} is allowed. Use a model with ready ONNX files."
        )
