"""Nearest vectors on a GPU, exactly, with FAISS: one resources object, owned by one thread."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from itertools import count
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misconfigured
from retrieve.dense import in_order
from retrieve.filtered import nearest_allowed
from retrieve.rows import Rows

DEEPEST = 2_048  # rows that FAISS selects on a GPU


class GpuMemory:
    """One process's FAISS memory on the GPU, owned by the first thread that uses it: the dense lane's only one.

    `library` is FAISS, or what stands for it where there is no GPU. Indexes are made and freed by the owner alone: one
    that nobody has any more waits until the owner comes by.
    """

    def __init__(self, library: Any = faiss) -> None:
        self._library = library
        self._resources: Any = None
        self._owner = 0
        self._indexes: dict[int, Any] = {}
        self._unwanted: deque[int] = deque()
        self._numbers = count()

    @classmethod
    def open(cls, library: Any = faiss) -> GpuMemory:
        """Raises Misconfigured where FAISS has no GPU code or finds no GPU."""
        if not hasattr(library, "StandardGpuResources"):
            raise Misconfigured("This FAISS has no GPU code. Install the 'gpu' extra instead of 'cpu', or choose cpu.")
        if library.get_num_gpus() == 0:
            raise Misconfigured("FAISS finds no GPU. Repair the driver, or choose the device cpu.")
        return cls(library)

    @property
    def indexes(self) -> int:
        """How many there are on the GPU, those included that wait to be freed."""
        return len(self._indexes)

    def new_number(self) -> int:
        """For an index that is to come; from any thread."""
        return next(self._numbers)

    def index(self, number: int, vectors: NDArray[np.float32]) -> Any:
        """FAISS's index of these vectors, copied to the GPU the first time that its `number` is asked for.

        Raises RuntimeError in any thread but the owner: FAISS's resources are not safe to share.
        """
        if self._resources is None:
            self._resources, self._owner = self._library.StandardGpuResources(), threading.get_ident()
        if threading.get_ident() != self._owner:
            raise RuntimeError("FAISS's GPU resources belong to one thread: give the dense lane one thread.")
        while self._unwanted:
            self._indexes.pop(self._unwanted.popleft(), None)
        index = self._indexes.get(number)
        if index is None:
            index = self._indexes[number] = self._library.GpuIndexFlatIP(self._resources, int(vectors.shape[1]))
            index.add(np.ascontiguousarray(vectors))
        return index

    def give_up(self, number: int) -> None:
        """From any thread: this index is not asked for again."""
        self._unwanted.append(number)


class GpuDenseIndex:
    """A generation's vectors, compared exactly on a GPU; copied there when its one thread warms up or first searches.

    `vectors` is `[rows, dimensions] float32`, L2-normalised.
    """

    def __init__(self, vectors: NDArray[np.float32], memory: GpuMemory) -> None:
        self._vectors = vectors
        self._memory = memory
        self._number = memory.new_number()
        weakref.finalize(self, memory.give_up, self._number)

    def warm_up(self) -> None:
        """Copies the vectors and runs one search, which loads the kernels."""
        self.search(np.zeros(int(self._vectors.shape[1]), np.float32), 1)

    def search(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.uint8] | None = None) -> Rows:
        """Implements DenseSearch, for at most 2,048 rows, which is what FAISS selects on a GPU.

        The GPU is asked for rows without a filter, and what it returns is checked; rows that it may not bring deep
        enough are compared on the CPU.
        """
        if allowed is not None:
            return nearest_allowed(self._nearest, self._vectors, vector, min(k, DEEPEST), allowed)
        return self._nearest(vector, k)

    def _nearest(self, vector: NDArray[np.float32], k: int) -> Rows:
        k = min(k, len(self._vectors), DEEPEST)
        if k <= 0:
            return Rows.none()
        scores, rows = self._memory.index(self._number, self._vectors).search(vector[None, :], k)
        return in_order(cast("NDArray[np.int64]", rows)[0], cast("NDArray[np.float32]", scores)[0])
