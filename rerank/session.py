"""An ONNX Runtime session for the cross-encoder, on the device that was asked for and on no other, and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray

from pipeline.errors import Misconfigured

_ort: Any = onnxruntime
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
# Full weights last on a CPU and first on a GPU, where int8 graphs made for AVX are slow or refused.
_WEIGHTS = {
    "cpu": ("model.onnx", "onnx/model_qint8_avx2.onnx", "onnx/model_quantized.onnx", "onnx/model.onnx"),
    "cuda": ("model.onnx", "onnx/model.onnx", "onnx/model_fp16.onnx"),
}

Feed = Mapping[str, NDArray[np.int64]]


class Runs(Protocol):
    """How a session is run: `[rows, …]` of the graph's output for `[rows, length] int64` of each input.

    `options` are ONNX Runtime's for this run. Raises what ONNX Runtime raises.
    """

    def __call__(self, feed: Feed, options: Any) -> NDArray[Any]: ...


@dataclass(frozen=True, slots=True)
class PlainRuns:
    """Hands arrays over and gets arrays back: what a CPU wants, where nothing needs to be copied."""

    session: Any
    output: str

    def __call__(self, feed: Feed, options: Any) -> NDArray[Any]:
        found: NDArray[Any] = self.session.run([self.output], dict(feed), options)[0]
        return found


class BoundRuns:
    """Keeps the inputs of each shape on the device and writes into them, so that no run allocates there.

    For few shapes only. Belongs to one thread. `device` is ONNX Runtime's name of it, as `cuda`.
    """

    def __init__(self, session: Any, output: str, device: str) -> None:
        self._session = session
        self._output = output
        self._device = device
        self._bound: dict[tuple[int, ...], tuple[Any, dict[str, Any]]] = {}

    def __call__(self, feed: Feed, options: Any) -> NDArray[Any]:
        shape = next(iter(feed.values())).shape
        if shape not in self._bound:
            self._bound[shape] = self._bind(feed)
        binding, inputs = self._bound[shape]
        for name, rows in feed.items():
            inputs[name].update_inplace(np.ascontiguousarray(rows))
        self._session.run_with_iobinding(binding, options)
        found: NDArray[Any] = binding.copy_outputs_to_cpu()[0]
        return found

    def _bind(self, feed: Feed) -> tuple[Any, dict[str, Any]]:
        binding = self._session.io_binding()
        inputs = {name: _ort.OrtValue.ortvalue_from_numpy(rows.copy(), self._device, 0) for name, rows in feed.items()}
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output(self._output, self._device)
        return binding, inputs


def weights_of(folder: Path, named: str | None, device: str) -> Path:
    """The ONNX file to load. Raises Misconfigured, saying what there is, where there is none."""
    if not folder.is_dir():
        raise Misconfigured(f"There is no reranker folder at '{folder}'. Name one with ONNX weights.")
    found = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    usual = [named] if named else _WEIGHTS.get(device, ())
    for file in [folder / name for name in usual] + ([] if named else found):
        if file.is_file():
            return file
    there = ", ".join(file.relative_to(folder).as_posix() for file in found) or "no ONNX file at all"
    raise Misconfigured(f"The reranker folder '{folder}' has no {named or 'model.onnx'}; it has {there}.")


def open_session(weights: Path, device: str, threads: int) -> Any:
    """Opens `weights` with `threads` threads a run. Raises Misconfigured when it does not really run on `device`."""
    provider = _PROVIDERS.get(device)
    if provider is None:
        raise Misconfigured(f"The reranker's device is '{device}'; it can be {' or '.join(_PROVIDERS)}.")
    remedy = "Install the gpu extra on a machine with an NVIDIA GPU, or set the reranker's device to 'cpu'."
    available = [str(name) for name in _ort.get_available_providers()]
    if provider not in available:
        raise Misconfigured(
            f"The reranker was to run on '{device}', but this ONNX Runtime has {', '.join(available)} only. {remedy}"
        )
    if device == "cuda":
        _ort.preload_dlls()  # CUDA and cuDNN from the wheels of the gpu extra, where the system has none
    try:
        session: Any = _ort.InferenceSession(str(weights), _settings(threads), providers=[provider])
    except Exception as error:  # ONNX Runtime's errors share no other class
        raise Misconfigured(f"ONNX Runtime cannot load the reranker '{weights}': {error}") from error
    running = list(session.get_providers())
    if running[:1] != [provider]:  # it lists CUDA, falls back to the CPU and logs one line
        raise Misconfigured(
            f"The reranker was to run on '{device}', but ONNX Runtime runs it on {running[0]}. {remedy}"
        )
    session.disable_fallback()  # after a failed run it would otherwise open itself anew on the CPU
    return session


def runs_of(session: Any, output: str, device: str) -> Runs:
    """How this session is run on this device."""
    return PlainRuns(session, output) if device == "cpu" else BoundRuns(session, output, device)


def _settings(threads: int) -> Any:
    settings: Any = _ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    # Measured with 2 threads: a spinning pool took 14.7 ms where one that sleeps took 7.4.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.log_severity_level = 3
    return settings
