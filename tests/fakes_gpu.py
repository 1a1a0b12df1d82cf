"""FAISS's GPU half where there is no GPU: the same calls, on the CPU, with the threads noted that make them."""

from __future__ import annotations

import threading
from typing import Any, cast

import faiss
import numpy as np


class FakeGpuLibrary:
    """Stands for faiss-gpu in `GpuMemory`. `gpus` is how many it finds."""

    def __init__(self, gpus: int = 1) -> None:
        self.gpus = gpus
        self.resources = 0
        self.threads: set[int] = set()

    def get_num_gpus(self) -> int:
        return self.gpus

    def StandardGpuResources(self) -> object:  # noqa: N802  as FAISS spells it
        self.resources += 1
        return object()

    def GpuIndexFlatIP(self, resources: object, dimensions: int) -> FakeGpuIndex:  # noqa: N802
        assert resources is not None
        return FakeGpuIndex(self, dimensions)


class FakeGpuIndex:
    """An exact index; like the real one it fills up with -1 and selects 2,048 rows at most."""

    def __init__(self, library: FakeGpuLibrary, dimensions: int) -> None:
        self._library = library
        self._index = cast("Any", faiss.IndexFlatIP(dimensions))

    def add(self, vectors: np.ndarray) -> None:
        self._library.threads.add(threading.get_ident())
        self._index.add(vectors)

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        assert k <= 2048
        self._library.threads.add(threading.get_ident())
        scores, rows = self._index.search(vectors, k)
        return scores, rows
