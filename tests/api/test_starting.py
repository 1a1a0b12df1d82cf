"""Before the first request: who is asked, what nobody sees of it, and what the start-up line tells."""

from __future__ import annotations

import gc
import json
import resource
import weakref
from pathlib import Path

import pytest

from api.assembly import DoorOptions, create_app
from api.metrics import Metrics
from api.starting import AT_ONCE, allow_open_files, settle, told, warm_up
from pipeline.lane import Lane, LaneOptions
from retrieve.shelf import GenerationShelf
from retrieve.warming import read_ahead, sample_queries
from tests.fakes_api import FakeRetriever, FakeStages
from tests.fakes_shelf import make_passage
from tests.generations import changed, opened, published

QUERIES = ("leave", "how many days of leave", "notice")


async def asked(*collections: str, seconds: float = 60.0) -> tuple[int, FakeRetriever, Metrics]:
    """What a warm-up of these collections comes to, over fakes."""
    retriever, metrics = FakeRetriever(), Metrics()
    with Lane(LaneOptions("catalog")) as lane:
        app = create_app(FakeStages(lane, retriever=retriever), DoorOptions(), metrics)
        answered = await warm_up(app, {("acme", name): QUERIES for name in collections}, seconds)
    return answered, retriever, metrics


async def test_every_collection_is_asked_as_its_own_tenant_alone_and_at_once() -> None:
    answered, retriever, _ = await asked("handbook", "laws")
    assert answered == len(retriever.queries) == 2 * 2 * len(QUERIES)
    assert {query.collections for query in retriever.queries} == {("handbook",), ("laws",)}
    assert {query.caller.tenant for query in retriever.queries} == {"acme"}
    assert retriever.together == min(AT_ONCE, len(QUERIES))
    assert len({(query.text, query.collections) for query in retriever.queries}) == answered, "none is remembered"


async def test_nobody_sees_a_warm_up_in_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="fleetfoot.requests")
    _, _, metrics = await asked("handbook")
    assert b'route="/v1/retrieve"' not in metrics.text()
    assert not caplog.records


async def test_a_collection_that_cannot_be_searched_does_not_keep_the_service_from_starting() -> None:
    answered, retriever, _ = await asked("nowhere", "handbook")
    assert answered == 2 * len(QUERIES)
    assert len(retriever.queries) == 4 * len(QUERIES)


async def test_a_warm_up_ends_in_time() -> None:
    assert (await asked("handbook", seconds=0.0))[0] == 0


def test_sample_queries_have_words_of_the_collection_and_every_length(tmp_path: Path) -> None:
    texts = [" ".join(f"w{number}x{word}" for word in range(60)) for number in range(30)]
    passages = [make_passage(f"d{number}", 0, text) for number, text in enumerate(texts)]
    generation = opened(published(tmp_path, passages))
    queries = sample_queries(generation)
    lengths = {len(query.split()) for query in queries}
    assert min(lengths) == 1
    assert max(lengths) >= 32
    assert all(any(text.startswith(query) for text in texts) for query in queries)
    assert len({query.split()[0].partition("x")[0] for query in queries}) == len(queries), "spread over the collection"
    read_ahead(generation.ref.folder)  # nothing to see, and nothing raised


def test_a_collection_without_passages_is_asked_nothing(tmp_path: Path) -> None:
    assert sample_queries(opened(published(tmp_path, []))) == ()


def test_what_is_there_at_the_start_is_left_out_of_garbage_collection() -> None:
    before = gc.get_threshold()
    try:
        settle()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold()[0] > before[0]
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_a_generation_goes_without_garbage_collection(tmp_path: Path) -> None:
    ref = published(tmp_path, [make_passage(f"d{number}", 0, f"word{number}") for number in range(9)])
    generation = opened(changed(ref, gone=["d3"]))
    generation.segments[0].lexical.search(generation.analyzer.terms("word1"), 3)
    shelf = GenerationShelf((generation,))
    shelf.passages([1, 2])
    shelf.near_duplicates([1, 2], 0.9)
    there = weakref.ref(generation.segments[0].lexical)
    gc.disable()
    try:
        del generation, shelf
        assert there() is None, "what is frozen and has cycles would stay for ever"
    finally:
        gc.enable()


def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
        assert allow_open_files() == hard
        assert allow_open_files() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_start_up_line_tells_the_native_pools_and_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    line = json.loads(told({"cores": 2, "lanes": {"dense": {"threads": 2, "line": 64}}}))["started"]
    assert line["cores"] == 2
    assert line["lanes"]["dense"] == {"threads": 2, "line": 64}
    assert line["pools"]["OMP_NUM_THREADS"] == "1"
