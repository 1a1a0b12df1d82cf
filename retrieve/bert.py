"""The parts of a BERT encoder, found in an ONNX graph by their shapes and their order, whatever exported it.

Devlin, Chang, Lee and Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers" (2019). What is found here is
a guess until its vectors were compared: `retrieve.query_graph` does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieve.onnx_file import message, values
from retrieve.sessions import runtime

LINEARS = 6  # a layer's: query, key, value, output of attention, wider, narrower


class OtherShape(ValueError):
    """The graph is not the kind of model that was looked for; says what is different."""


@dataclass(frozen=True, slots=True)
class Linear:
    """`weights` `[inputs, outputs] float32`, `bias` `[outputs] float32`; `source` names what it is applied to."""

    source: str
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer normalisation: `scale` and `shift` are `[dimensions] float32`."""

    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    epsilon: float


@dataclass(frozen=True, slots=True)
class Layer:
    """Attention and feed-forward, each followed by its normalisation."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    wider: Linear
    narrower: Linear
    after_attention: Norm
    after_feeding: Norm


@dataclass(frozen=True, slots=True)
class Bert:
    """Embedding tables are `[words | positions | types, dimensions] float32`. `graph` is what they were found in."""

    words: NDArray[np.float32]
    positions: NDArray[np.float32]
    types: NDArray[np.float32]
    norm: Norm
    layers: tuple[Layer, ...]
    graph: Any

    @property
    def dimensions(self) -> int:
        """The length of a token's state."""
        return int(self.words.shape[1])


def read_bert(weights: Path) -> Bert:
    """Raises OtherShape when the graph is no BERT encoder that takes token ids, mask and types."""
    graph = _simplified(weights)
    constants = {each.name: each for each in graph.graph.initializer}

    def constant(name: str, *, rank: int) -> NDArray[np.float32] | None:
        found = values(constants[name]) if name in constants else None
        return found if found is not None and found.ndim == rank else None

    def norm(node: Any) -> Norm:
        scale, shift = constant(node.input[1], rank=1), constant(node.input[2], rank=1)
        if scale is None or shift is None:
            raise OtherShape("a layer normalisation has no constant scale and shift")
        epsilon = [attribute.f for attribute in node.attribute if attribute.name == "epsilon"]
        return Norm(scale, shift, epsilon[0] if epsilon else 1e-5)

    users: dict[str, list[Any]] = {}
    for node in graph.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)

    def linear(node: Any, matrix: NDArray[np.float32]) -> tuple[str, Linear]:
        for user in users.get(node.output[0], []):
            for name in user.input if user.op_type == "Add" else ():
                bias = constant(name, rank=1)
                if bias is not None and len(bias) == matrix.shape[1]:
                    return user.output[0], Linear(node.input[0], matrix, bias)
        raise OtherShape("a product has no bias added to it")

    tables: dict[str, NDArray[np.float32]] = {}
    linears: list[tuple[str, Linear]] = []
    norms: list[Norm] = []
    for node in graph.graph.node:
        match node.op_type:
            case "Gather" if (table := constant(node.input[0], rank=2)) is not None:
                index = node.input[1]
                tables[index if index in ("input_ids", "token_type_ids") else "positions"] = table
            case "MatMul" if (matrix := constant(node.input[1], rank=2)) is not None:
                linears.append(linear(node, matrix))
            case "LayerNormalization":
                norms.append(norm(node))
            case _:
                continue
    layers, rest = divmod(len(linears), LINEARS)
    if rest or not layers or len(norms) != 2 * layers + 1 or len(tables) != 3:
        raise OtherShape(f"it has {len(tables)} tables, {len(linears)} products and {len(norms)} normalisations")
    found: list[Layer] = []
    for at in range(layers):
        *three, (_, output), (_, wider), (_, narrower) = linears[LINEARS * at : LINEARS * (at + 1)]
        query, key, value = _in_order(three, users)
        after = norms[2 * at + 1 : 2 * at + 3]
        found.append(Layer(query, key, value, output, wider, narrower, after[0], after[1]))
    bert = Bert(tables["input_ids"], tables["positions"], tables["token_type_ids"], norms[0], tuple(found), graph)
    _check(bert)
    return bert


def _in_order(three: Sequence[tuple[str, Linear]], users: Mapping[str, Sequence[Any]]) -> tuple[Linear, Linear, Linear]:
    """Query, key and value: the first two meet in a product, on its left and on its right; files list them anyhow."""
    met = [(*_meets(output, users), part) for output, part in three]
    products = [product for product, _, _ in met]
    together = [each for each in met if products.count(each[0]) == 2]
    alone = [part for product, _, part in met if products.count(product) == 1]
    if len(together) != 2 or len(alone) != 1 or {side for _, side, _ in together} != {0, 1}:
        raise OtherShape("its attention is put together in another way")
    together.sort(key=lambda each: each[1])
    return together[0][2], together[1][2], alone[0]


def _meets(name: str, users: Mapping[str, Sequence[Any]]) -> tuple[str, int]:
    """The first product on the way of a value that is only scaled and laid out anew, and on which side it enters."""
    reached = [name]
    for output in reached:
        for user in users.get(output, ()):
            if user.op_type == "MatMul":
                return user.output[0], list(user.input).index(output)
            if user.op_type in ("Reshape", "Transpose", "Mul", "Div") and user.input[0] == output:
                reached.append(user.output[0])
    raise OtherShape("its attention is put together in another way")


def _check(bert: Bert) -> None:
    size = bert.dimensions
    for layer in bert.layers:
        square = [part.weights.shape for part in (layer.query, layer.key, layer.value, layer.output)]
        wide = layer.wider.weights.shape[1]
        if square != [(size, size)] * 4 or layer.wider.weights.shape[0] != size:
            raise OtherShape("its products have other shapes than a BERT's")
        if layer.narrower.weights.shape != (wide, size):
            raise OtherShape("its feed-forward part has other shapes than a BERT's")


def _simplified(weights: Path) -> Any:
    """The graph after onnxruntime's basic optimisations: constants computed, normalisations in one operator."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        simplified = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(simplified)
        runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
        model = message("Model")
        model.ParseFromString(simplified.read_bytes())
    return model
