"""A GPU's memory has one owner, is asked for by name, and is given back by the owner."""

from __future__ import annotations

import gc
import threading
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import pytest

from pipeline.errors import Misconfigured
from retrieve.allowed import Allowed
from retrieve.dense import DenseIndex
from retrieve.generation import Generation
from retrieve.gpu_dense import GpuDenseIndex, GpuMemory
from retrieve.hybrid import search_vector
from retrieve.shelf import key_of
from tests.fakes_gpu import FakeGpuLibrary
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, changed, directions, published


def test_without_a_gpu_it_is_an_error_and_no_way_back_to_the_cpu() -> None:
    with pytest.raises(Misconfigured, match="no GPU"):
        GpuMemory.open(FakeGpuLibrary(gpus=0))
    if not hasattr(faiss, "StandardGpuResources"):
        with pytest.raises(Misconfigured, match="'gpu' extra"):
            GpuMemory.open()


def test_any_other_thread_than_the_owner_is_refused() -> None:
    library = FakeGpuLibrary()
    index = GpuDenseIndex(directions(50), GpuMemory.open(library))
    index.warm_up()
    refused: list[str] = []

    def search() -> None:
        with pytest.raises(RuntimeError, match="one thread") as error:
            index.search(directions(1)[0], 5)
        refused.append(str(error.value))

    other = threading.Thread(target=search)
    other.start()
    other.join()
    assert len(refused) == 1
    assert library.threads == {threading.get_ident()}


def test_generations_share_one_resources_object() -> None:
    library = FakeGpuLibrary()
    memory = GpuMemory.open(library)
    for _ in range(3):
        GpuDenseIndex(directions(50), memory).warm_up()
    assert library.resources == 1


def test_a_generation_that_is_gone_is_freed_when_the_owner_comes_by() -> None:
    memory = GpuMemory.open(FakeGpuLibrary())
    serving, before = GpuDenseIndex(directions(50), memory), GpuDenseIndex(directions(50), memory)
    serving.warm_up()
    before.warm_up()
    assert memory.indexes == 2
    del before
    gc.collect()
    assert memory.indexes == 2
    serving.warm_up()
    assert memory.indexes == 1


def test_a_base_is_searched_on_the_gpu_and_what_lies_on_it_by_the_cpu(tmp_path: Path) -> None:
    """Also under tombstones and a mask, which a GPU's index knows nothing of."""
    library = FakeGpuLibrary()
    rows = directions(6_000)
    passages = [make_passage(f"d{number}", 0, f"w{number % 9}") for number in range(6_000)]
    before = published(tmp_path, passages, rows)
    new = [make_passage("d7", 0, "w7 again")]
    after = changed(before, new, rows[7:8], gone=["d9"])
    on_gpu = partial(GpuDenseIndex, memory=GpuMemory.open(library))
    generation = Generation.open(after, embedder=EMBEDDER, dense=on_gpu)
    base, delta = generation.segments
    assert (type(base.dense), type(delta.dense)) == (GpuDenseIndex, DenseIndex)
    assert search_vector(rows[7], generation.segments, 1).keys == [key_of(1, 0)]
    mask = (np.arange(6_000) % 2).astype(np.uint8)
    allowed = Allowed(generation.segments, [mask, None])
    found = search_vector(rows[9], generation.segments, 50, allowed).keys
    scores = np.where((mask != 0) & (base.alive != 0), rows @ rows[9], -np.inf)
    exact = [*((-float(score), row) for row, score in enumerate(scores)), (-float(rows[7] @ rows[9]), key_of(1, 0))]
    assert found == [key for _, key in sorted(exact)[:50]]
    assert library.threads == {threading.get_ident()}
