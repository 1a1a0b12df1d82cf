"""How many threads the native libraries of this process work with, as they say themselves."""

from __future__ import annotations

from typing import Any, cast

import faiss
import pyarrow  # type: ignore[import-untyped]  # it ships no types


def native_threads() -> dict[str, int]:
    """By library. Numba's kernels are compiled without parallel loops and run on the thread that calls them.

    OpenBLAS under numpy and ONNX Runtime do not say: the first obeys OPENBLAS_NUM_THREADS, the second what each model
    was opened with.
    """
    return {"faiss": int(cast("Any", faiss).omp_get_max_threads()), "pyarrow": int(cast("Any", pyarrow).cpu_count())}
