"""ONNX files, read and written by their protobuf schema: as much of it as changing a graph takes.

The `onnx` package is 18 MB that nothing else here needs; protobuf is there already, for onnxruntime. Field numbers are
those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3, which never change; fields that are not named here are
kept when a message is read and written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from google.protobuf import (  # type: ignore[import-untyped]  # carries no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from numpy.typing import NDArray

PACKAGE = "fleetfoot.onnx"
# For each message its fields: name, number, kind; a kind with `*` is a list.
SCHEMA: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Model": (("ir_version", 1, "int64"), ("graph", 7, "Graph"), ("opset_import", 8, "*OperatorSet")),
    "OperatorSet": (("domain", 1, "string"), ("version", 2, "int64")),
    "Graph": (
        ("node", 1, "*Node"),
        ("name", 2, "string"),
        ("initializer", 5, "*Tensor"),
        ("input", 11, "*Value"),
        ("output", 12, "*Value"),
    ),
    "Node": (
        ("input", 1, "*string"),
        ("output", 2, "*string"),
        ("name", 3, "string"),
        ("op_type", 4, "string"),
        ("attribute", 5, "*Attribute"),
        ("domain", 7, "string"),
    ),
    "Attribute": (("name", 1, "string"), ("f", 2, "float"), ("i", 3, "int64"), ("type", 20, "int32")),
    "Tensor": (
        ("dims", 1, "*int64"),
        ("data_type", 2, "int32"),
        ("float_data", 4, "*float"),
        ("name", 8, "string"),
        ("raw_data", 9, "bytes"),
    ),
    "Value": (("name", 1, "string"), ("type", 2, "Type")),
    "Type": (("tensor_type", 1, "TensorType"),),
    "TensorType": (("elem_type", 1, "int32"), ("shape", 2, "Shape")),
    "Shape": (("dim", 1, "*Dimension"),),
    "Dimension": (("dim_value", 1, "int64"), ("dim_param", 2, "string")),
}
FLOAT, INT64 = 1, 7
ELEMENTS = {"float32": FLOAT, "uint8": 2, "int64": INT64}  # by numpy's name
_OF_FLOAT, _OF_INT = 1, 2  # what an attribute says that it holds


def message(name: str) -> Any:
    """A new message of the schema, as `Model`."""
    return _classes()[name]()


def node(kind: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: float) -> Any:
    """An operator with one output; whole numbers become integer attributes."""
    made = message("Node")
    made.op_type, made.domain, made.name = kind, domain, output
    made.input.extend(inputs)
    made.output.append(output)
    for name, value in attributes.items():
        attribute = made.attribute.add()
        attribute.name = name
        if isinstance(value, int):
            attribute.type, attribute.i = _OF_INT, value
        else:
            attribute.type, attribute.f = _OF_FLOAT, value
    return made


def tensor(name: str, content: NDArray[np.generic]) -> Any:
    """A constant of the graph."""
    made = message("Tensor")
    made.name, made.data_type = name, ELEMENTS[content.dtype.name]
    made.dims.extend(content.shape)
    made.raw_data = content.tobytes()
    return made


def values(found: Any) -> NDArray[np.float32] | None:
    """What a float32 constant holds; None for another kind, or one that lies in a second file."""
    if found.data_type != FLOAT:
        return None
    flat = np.frombuffer(found.raw_data, "<f4") if found.raw_data else np.array(found.float_data, np.float32)
    shape = tuple(found.dims)
    return flat.astype(np.float32, copy=False).reshape(shape) if flat.size == np.prod(shape, dtype=np.int64) else None


def value(name: str, element: int, dimensions: Sequence[str | int] = ()) -> Any:
    """An input or output of the graph; a dimension is a number, or a name where it is open."""
    made = message("Value")
    made.name, made.type.tensor_type.elem_type = name, element
    for size in dimensions:
        dimension = made.type.tensor_type.shape.dim.add()
        if isinstance(size, int):
            dimension.dim_value = size
        else:
            dimension.dim_param = size
    return made


@cache
def _classes() -> dict[str, Any]:
    described: Any = descriptor_pb2.FileDescriptorProto(name="fleetfoot/onnx.proto", package=PACKAGE, syntax="proto2")
    of: Any = descriptor_pb2.FieldDescriptorProto
    for name, fields in SCHEMA.items():
        made = described.message_type.add(name=name)
        for field, number, kind in fields:
            label = of.LABEL_REPEATED if kind.startswith("*") else of.LABEL_OPTIONAL
            kind = kind.removeprefix("*")  # noqa: PLW2901
            if kind in SCHEMA:
                kinds = {"type": of.TYPE_MESSAGE, "type_name": f".{PACKAGE}.{kind}"}
            else:
                kinds = {"type": getattr(of, f"TYPE_{kind.upper()}")}
            made.field.add(name=field, number=number, label=label, **kinds)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(described.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in SCHEMA}
