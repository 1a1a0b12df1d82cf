"""ONNX Runtime sessions, opened on the device that was asked for and on no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # carries no types
from numpy.typing import NDArray

from pipeline.errors import Misconfigured

runtime: Any = onnxruntime


class Device(StrEnum):
    """Where a model runs."""

    CPU = "cpu"
    CUDA = "cuda"


PROVIDERS = {Device.CPU: "CPUExecutionProvider", Device.CUDA: "CUDAExecutionProvider"}


class Port(Protocol):
    """An input or output of a graph."""

    name: str
    shape: Sequence[int | str | None]


class Session(Protocol):
    """What is used of `onnxruntime.InferenceSession`, which carries no types."""

    def get_inputs(self) -> Sequence[Port]: ...
    def get_outputs(self) -> Sequence[Port]: ...
    def get_providers(self) -> Sequence[str]: ...
    def run(self, outputs: Sequence[str] | None, feed: Mapping[str, NDArray[np.int64]]) -> list[NDArray[Any]]: ...


def open_session(weights: Path, device: Device, threads: int) -> Session:
    """Opens `weights` with `threads` threads inside an operator, which sleep between runs.

    Spinning threads cost 14.7 ms a query against 7.4 on two shared cores. Raises Misconfigured when the file cannot be
    loaded, or when the session does not really run on `device`: onnxruntime-gpu without a GPU lists CUDA, runs on the
    CPU and writes one log line.
    """
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    provider = PROVIDERS[device]
    available = cast("list[str]", runtime.get_available_providers())
    if provider not in available:
        raise Misconfigured(
            f"The device '{device}' needs onnxruntime's {provider}, and this build has {', '.join(available)}. "
            "Install fleetfoot's 'gpu' extra instead of 'cpu', or choose the device cpu."
        )
    if device is Device.CUDA:
        runtime.preload_dlls()  # CUDA and cuDNN from the wheels of the gpu extra, where the system has none
    try:
        session = cast("Session", runtime.InferenceSession(str(weights), options, providers=[provider]))
    except Exception as error:
        raise Misconfigured(f"onnxruntime cannot load '{weights}' on {device}: {error}") from error
    opened = session.get_providers()
    if provider not in opened:
        raise Misconfigured(
            f"'{weights}' was asked to run on {device} and runs on {', '.join(opened)}: the GPU, its driver or the "
            "CUDA libraries are not there. Repair them, or choose the device cpu."
        )
    return session
