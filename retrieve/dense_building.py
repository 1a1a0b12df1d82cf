"""Writes the file of a dense index, of the kind that so many vectors want."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any, cast

import faiss
import numpy as np
from numpy.typing import NDArray

from retrieve.dense import DenseOptions

FLAT, SCAN, LISTS = "flat", "scan", "lists"
LEAST_CODED = 1024  # so few vectors are compared one by one whatever the options say: codes are learned from vectors
ROWS_A_LIST = 32  # that centroids are learned from
LEARNED_FROM = 16_384  # rows that codes are learned from
ROUNDS, CODE_ROUNDS = 6, 8
AT_ONCE = 65_536
SEED = 1


def kind_for(rows: int, options: DenseOptions) -> str:
    """The kind of index for so many rows."""
    if rows <= max(options.exact_up_to, LEAST_CODED):
        return FLAT
    return SCAN if rows <= options.scanned_up_to else LISTS


def write_dense(file: Path, vectors: NDArray[np.float32], options: DenseOptions) -> str:
    """Builds the index over `[rows, dimensions] float32`, L2-normalised, and writes it; returns its kind."""
    kind = kind_for(len(vectors), options)
    dimensions = vectors.shape[1]
    index: Any
    if kind == FLAT:
        index = faiss.IndexFlatIP(dimensions)
    else:
        index = _coded(_sample(vectors, LEARNED_FROM), None if kind == SCAN else _centroids(vectors, options))
    faiss.omp_set_num_threads(options.build_threads)
    for first in range(0, len(vectors), AT_ONCE):
        index.add(np.ascontiguousarray(vectors[first : first + AT_ONCE]))
    faiss.write_index(index, str(file))
    return kind


def _coded(sample: NDArray[np.float32], centroids: Any) -> Any:
    """An empty index of codes, 4 bits for two dimensions, in one list or in a list for each centroid."""
    library = cast("Any", faiss)
    dimensions = sample.shape[1]
    parts = dimensions // 2 if dimensions % 2 == 0 else dimensions
    if centroids is None:
        index = library.IndexPQFastScan(dimensions, parts, 4, faiss.METRIC_INNER_PRODUCT)
    else:
        lists = centroids.ntotal
        index = library.IndexIVFPQFastScan(centroids, dimensions, lists, parts, 4, faiss.METRIC_INNER_PRODUCT)
        index.by_residual = False  # vectors of length 1: residuals gained nothing, and cost a table for each list read
    index.pq.cp.niter = CODE_ROUNDS
    # Nearly 200 clusterings of a few thousand pairs: two threads took 12 CPU seconds for what takes one thread .9.
    faiss.omp_set_num_threads(1)
    index.train(sample)
    return index


def _centroids(vectors: NDArray[np.float32], options: DenseOptions) -> Any:
    """Twice as many as the square root of the rows, by k-means over a sample."""
    count = 2 * isqrt(len(vectors))
    centroids = faiss.IndexFlatIP(vectors.shape[1])
    learning: Any = faiss.Clustering(vectors.shape[1], count)
    learning.niter, learning.seed, learning.spherical = ROUNDS, SEED, True
    learning.min_points_per_centroid, learning.max_points_per_centroid = 1, ROWS_A_LIST
    faiss.omp_set_num_threads(options.build_threads)
    learning.train(_sample(vectors, ROWS_A_LIST * count), centroids)
    return centroids


def _sample(vectors: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Rows drawn by the seed, so that equal vectors make equal files."""
    if len(vectors) <= most:
        return np.ascontiguousarray(vectors)
    drawn = np.random.default_rng(SEED).choice(len(vectors), most, replace=False)
    return np.ascontiguousarray(vectors[np.sort(drawn)])
