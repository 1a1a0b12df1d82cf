"""A GPU's memory has one owner, is asked for by name, and is given back by the owner."""

from __future__ import annotations

import gc
import threading

import faiss
import pytest

from pipeline.errors import Misconfigured
from retrieve.gpu_dense import GpuDenseIndex, GpuMemory
from tests.fakes_gpu import FakeGpuLibrary
from tests.generations import directions


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
