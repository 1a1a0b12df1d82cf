"""Runs of a graph on a GPU: a few fixed shapes, each with its inputs kept there.

A GPU chooses its kernels and sets memory aside for every shape it meets, which takes far longer than a run; so batches
are filled up to one of these, and each has been met before the first request (`warm_up`). Inputs are written into
buffers that stay on the device, outputs are read from where they were made: onnxruntime's IO binding.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieve.sessions import Device, Session, runtime

MASK = "attention_mask"


@dataclass(frozen=True, slots=True)
class Shapes:
    """Batches are filled up to the next of `rows` x `tokens`; what is larger than all runs in a shape of its own."""

    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    tokens: tuple[int, ...] = (16, 32, 64, 128, 256)

    def around(self, rows: int, tokens: int) -> tuple[int, int]:
        """The shape that a batch is filled up to."""
        return _next(self.rows, rows), _next(self.tokens, tokens)


class BoundRuns:
    """Safe to use from several threads: one of them runs at a time, as one owns a GPU."""

    def __init__(
        self, session: Session, inputs: Sequence[str], output: str, device: Device, shapes: Shapes | None = None
    ) -> None:
        self._session: Any = session
        self._inputs = tuple(inputs)
        self._output = output
        self._device = str(device)
        self._shapes = shapes or Shapes()
        self._bound: dict[tuple[int, int], tuple[Any, dict[str, Any]]] = {}
        self._turn = threading.Lock()

    @property
    def shapes_met(self) -> int:
        """How many shapes have buffers of their own."""
        return len(self._bound)

    def warm_up(self, longest: int) -> None:
        """Runs every shape once whose tokens a text may have."""
        for rows, tokens in product(self._shapes.rows, (each for each in self._shapes.tokens if each <= longest)):
            filler = np.ones((rows, tokens), np.int64)
            self.run(dict.fromkeys(self._inputs, filler))

    def run(self, given: Mapping[str, NDArray[np.int64]]) -> NDArray[Any]:
        """The output's rows, `[rows, …]`, with as many tokens as were given where it has some.

        `given` are `[rows, tokens] int64`, by the names of the graph's inputs.
        """
        rows, tokens = given[self._inputs[0]].shape
        shape = self._shapes.around(rows, tokens)
        with self._turn:
            if shape not in self._bound:
                self._bound[shape] = self._buffers(shape)
            binding, buffers = self._bound[shape]
            for name, buffer in buffers.items():
                filled = np.zeros(shape, np.int64)
                filled[:rows, :tokens] = given[name]
                if name == MASK:
                    filled[rows:, 0] = 1  # a row of nothing but padding has no mean
                buffer.update_inplace(filled)
            binding.bind_output(self._output, self._device)
            self._session.run_with_iobinding(binding)
            (made,) = binding.copy_outputs_to_cpu()
        states: NDArray[Any] = made
        return states[:rows, :tokens] if states.ndim == 3 else states[:rows]

    def _buffers(self, shape: tuple[int, int]) -> tuple[Any, dict[str, Any]]:
        binding = self._session.io_binding()
        buffers = {
            name: runtime.OrtValue.ortvalue_from_shape_and_type(shape, np.int64, self._device, 0)
            for name in self._inputs
        }
        for name, buffer in buffers.items():
            binding.bind_ortvalue_input(name, buffer)
        return binding, buffers


def _next(sizes: Sequence[int], size: int) -> int:
    return next((each for each in sizes if each >= size), size)
