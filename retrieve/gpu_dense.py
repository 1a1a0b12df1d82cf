"""Nearest vectors on a GPU, exactly, with FAISS: one resources object, owned by one thread."""

from __future__ import annotations

import threading
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misconfigured
from retrieve.dense import in_order
from retrieve.rows import Rows


class GpuMemory:
    """One process's FAISS memory on the GPU, owned by the first thread that uses it: the dense lane's only one."""

    def __init__(self) -> None:
        self._resources: Any = None
        self._owner = 0

    @classmethod
    def open(cls) -> GpuMemory:
        """Raises Misconfigured where FAISS has no GPU code or finds no GPU."""
        library = cast("Any", faiss)
        if not hasattr(library, "StandardGpuResources"):
            raise Misconfigured("This FAISS has no GPU code. Install the 'gpu' extra instead of 'cpu', or choose cpu.")
        if library.get_num_gpus() == 0:
            raise Misconfigured("FAISS finds no GPU. Repair the driver, or choose the device cpu.")
        return cls()

    def resources(self) -> Any:
        """FAISS's resources object. Raises RuntimeError in any thread but the owner: it is not safe to share."""
        if self._resources is None:
            self._resources, self._owner = cast("Any", faiss).StandardGpuResources(), threading.get_ident()
        if threading.get_ident() != self._owner:
            raise RuntimeError("FAISS's GPU resources belong to one thread: give the dense lane one thread.")
        return self._resources


class GpuDenseIndex:
    """A generation's vectors, compared exactly on a GPU; copied there when its one thread warms up or first searches.

    `vectors` is `[rows, dimensions] float32`, L2-normalised.
    """

    def __init__(self, vectors: NDArray[np.float32], memory: GpuMemory) -> None:
        self._vectors = vectors
        self._memory = memory
        self._index: Any = None

    def warm_up(self) -> None:
        """Copies the vectors and runs one search, which loads the kernels."""
        self.search(np.zeros(int(self._vectors.shape[1]), np.float32), 1)

    def search(self, vector: NDArray[np.float32], k: int) -> Rows:
        """Implements DenseSearch, for at most 2,048 rows, which is what FAISS selects on a GPU."""
        k = min(k, len(self._vectors), 2048)
        if k <= 0:
            return Rows.none()
        resources = self._memory.resources()
        if self._index is None:
            index = cast("Any", faiss).GpuIndexFlatIP(resources, self._vectors.shape[1])
            index.add(np.ascontiguousarray(self._vectors))
            self._index = index
        scores, rows = self._index.search(vector[None, :], k)
        return in_order(rows[0], scores[0])
