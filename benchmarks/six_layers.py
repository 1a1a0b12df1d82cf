"""A cross-encoder of six layers for benchmarks of time: the default embedder's graph with one logit on its first token.

Its scores mean nothing. Hubs carry no small cross-encoder of that size everywhere, and a graph is a protobuf message:
what is added here is written field by field, so that no package for making graphs is needed.
Fields as in onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

SEED = 20261201
WIDTH = 384
GRAPH, NODE, INITIALIZER, OUTPUT = 7, 1, 5, 12  # ModelProto.graph; GraphProto.node, .initializer, .output
FLOAT, INT64 = 1, 7  # TensorProto.DataType


def make(embedder: Path, folder: Path) -> Path:
    """Writes `model.onnx` and `tokenizer.json` into `folder`, from an embedder that gives `[rows, tokens, 384]`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(embedder / "tokenizer.json", folder / "tokenizer.json")
    model = (embedder / "model.onnx").read_bytes()
    written = bytearray()
    for number, content, whole in _fields(model):
        written += _message(GRAPH, _with_head(content)) if number == GRAPH else whole
    (folder / "model.onnx").write_bytes(written)
    return folder


def _with_head(graph: bytes) -> bytes:
    """The graph, whose only output is now `score [rows, 1]`: its first token's state times a vector."""
    kept = bytearray()
    states = ""
    for number, content, whole in _fields(graph):
        if number == OUTPUT:
            states = next(field.decode() for name, field, _ in _fields(content) if name == 1)
        else:
            kept += whole
    draw = Random(SEED)
    weights = struct.pack(f"<{WIDTH}f", *(draw.gauss(0, 0.1) for _ in range(WIDTH)))
    kept += _message(INITIALIZER, _tensor("head_place", INT64, (), struct.pack("<q", 0)))
    kept += _message(INITIALIZER, _tensor("head_weights", FLOAT, (WIDTH, 1), weights))
    axis = _text(1, "axis") + _number(3, 1) + _number(20, 2)  # AttributeProto: name, i, type INT
    kept += _message(NODE, _node("Gather", (states, "head_place"), "head_state") + _message(5, axis))
    kept += _message(NODE, _node("MatMul", ("head_state", "head_weights"), "score"))
    rows, one = _message(1, _text(2, "rows")), _message(1, _number(1, 1))  # TensorShapeProto.Dimension
    shaped = _number(1, FLOAT) + _message(2, rows + one)  # TypeProto.Tensor
    kept += _message(OUTPUT, _text(1, "score") + _message(2, _message(1, shaped)))
    return bytes(kept)


def _node(operator: str, inputs: tuple[str, ...], output: str) -> bytes:
    given = b"".join(_text(1, name) for name in inputs)
    return given + _text(2, output) + _text(3, f"{output}_node") + _text(4, operator)


def _tensor(name: str, kind: int, shape: tuple[int, ...], raw: bytes) -> bytes:
    return b"".join(_number(1, size) for size in shape) + _number(2, kind) + _text(8, name) + _message(9, raw)


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, content and whole encoding of each field; the content of a varint field is empty."""
    at = 0
    while at < len(message):
        begun = at
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                _, end = _varint(message, at)
                content = b""
            case 1 | 5 as wire:
                end = at + (8 if wire == 1 else 4)
                content = message[at:end]
            case 2:
                size, at = _varint(message, at)
                end = at + size
                content = message[at:end]
            case wire:
                raise ValueError(f"wire type {wire} at byte {begun}: this is no ONNX graph")
        yield tag >> 3, content, message[begun:end]
        at = end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _encoded(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _message(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | 2) + _encoded(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _encoded(number << 3) + _encoded(value)
