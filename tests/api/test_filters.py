"""The field `filters`: OpenAI's form in, a filter of the pipeline out, and errors that name their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.assembly import DoorOptions
from api.callers import new_key
from pipeline.errors import InvalidInput
from pipeline.filters import Comparison, Compound, Op
from tests.fakes_api import Running

YEAR = {"type": "gte", "key": "year", "value": 2024}
TAGS = {"type": "in", "key": "tags", "value": ["hr", True, 1.5]}
BOTH = {"type": "and", "filters": [YEAR, {"type": "or", "filters": [TAGS, YEAR]}]}


async def test_filters_reach_the_search_as_they_were_written() -> None:
    async with Running() as service:
        assert (await service.retrieve(filters=BOTH)).status == 200
        assert (await service.retrieve()).status == 200
        narrowed, plain = (query.filter for query in service.stages.retriever.queries)
    year = Comparison("year", Op.GTE, 2024)
    assert narrowed == Compound("and", (year, Compound("or", (Comparison("tags", Op.IN, ("hr", True, 1.5)), year))))
    assert plain is None


async def test_every_query_of_a_request_is_narrowed() -> None:
    async with Running() as service:
        assert (await service.retrieve(query=["one", "two"], filters=YEAR)).status == 200
        assert {query.filter for query in service.stages.retriever.queries} == {Comparison("year", Op.GTE, 2024)}


async def test_a_chat_is_narrowed_by_its_retrieval() -> None:
    async with Running() as service:
        assert (await service.chat(retrieval={"filters": YEAR})).status == 200
        assert service.stages.retriever.queries[0].filter == Comparison("year", Op.GTE, 2024)


@pytest.mark.parametrize(
    ("filters", "param"),
    [
        (3, "filters"),
        ({"key": "year", "value": 1}, "filters"),
        ({"type": "equals", "key": "year", "value": 1}, "filters"),
        ({"type": "eq", "key": "", "value": 1}, "filters.key"),
        ({"type": "eq", "key": "year"}, "filters.value"),
        ({"type": "eq", "key": "year", "value": None}, "filters.value"),
        ({"type": "eq", "key": "year", "value": {"a": 1}}, "filters.value"),
        ({"type": "eq", "key": "year", "value": [1]}, "filters.value"),
        ({"type": "in", "key": "year", "value": 1}, "filters.value"),
        ({"type": "in", "key": "year", "value": [[1]]}, "filters.value"),
        ({"type": "gt", "key": "year", "value": True}, "filters.value"),
        ({"type": "eq", "key": "year", "value": "x" * 1025}, "filters.value"),
        ({"type": "eq", "key": "year", "value": 1, "boost": 2}, "filters.boost"),
        ({"type": "and", "filters": []}, "filters.filters"),
        ({"type": "or", "filters": [YEAR, {"type": "and", "filters": [YEAR, TAGS | {"key": 7}]}]},
         "filters.filters[1].filters[1].key"),
    ],
)  # fmt: skip
async def test_what_is_no_filter_is_refused_with_its_place(filters: Any, param: str) -> None:
    async with Running() as service:
        for response, prefix in (
            (await service.retrieve(filters=filters), ""),
            (await service.chat(retrieval={"filters": filters}), "retrieval."),
        ):
            error = (await response.json())["error"]
            assert (response.status, error["param"]) == (400, prefix + param), error
        assert service.stages.retriever.queries == []


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = YEAR
    for _ in range(depth):
        found = {"type": "and", "filters": [found]}
    return found


@pytest.mark.parametrize(
    ("filters", "status"),
    [
        (nested(7), 200),
        (nested(8), 400),
        (nested(100), 400),
        ({"type": "or", "filters": [YEAR] * 255}, 200),
        ({"type": "or", "filters": [YEAR] * 256}, 400),
        ({"type": "in", "key": "year", "value": list(range(1000))}, 200),
        ({"type": "in", "key": "year", "value": list(range(1001))}, 400),
    ],
    ids=["deep", "too deep", "much too deep", "wide", "too wide", "long", "too long"],
)
async def test_filters_are_bounded_in_depth_and_size(filters: Any, status: int) -> None:
    async with Running() as service:
        assert (await service.retrieve(filters=filters)).status == status


async def test_a_body_that_is_nested_without_end_is_refused_like_any_that_is_no_json() -> None:
    async with Running() as service:
        body = '{"query": "x", "filters": ' + "[" * 100_000
        headers = {"Content-Type": "application/json"}
        async with service.client.post(f"{service.url}/v1/retrieve", data=body, headers=headers) as response:
            assert response.status == 400
            assert "nested" in (await response.json())["error"]["message"]


async def test_a_filter_that_means_nothing_there_is_told_at_its_place_in_the_body() -> None:
    async with Running() as service:
        service.stages.retriever.error = InvalidInput("There is no field 'yaer'.", field="filters.filters[0].key")
        response = await service.retrieve(filters=BOTH)
        assert response.status == 400
        assert (await response.json())["error"]["param"] == "filters.filters[0].key"


async def test_labels_come_from_the_key_and_from_nowhere_in_a_body(tmp_path: Path) -> None:
    key = new_key()
    file = tmp_path / "keys.toml"
    file.write_text(
        f'[[keys]]\nhash = "{key.hash}"\ntenant = "default"\nscopes = ["read", "ingest"]\nlabels = ["hr"]\n'
    )
    async with Running(DoorOptions(keys_file=file)) as service:
        headers = {"Authorization": f"Bearer {key.key}"}
        asked = {"query": "leave", "collection": "handbook"}
        async with service.client.post(f"{service.url}/v1/retrieve", json=asked, headers=headers) as response:
            assert response.status == 200
        for more in ({"labels": ["board"]}, {"access": ["board"]}, {"caller": {"labels": ["board"]}}):
            async with service.client.post(
                f"{service.url}/v1/retrieve", json=asked | more, headers=headers
            ) as response:
                assert response.status == 400
        chat = {"model": "handbook", "messages": [{"role": "user", "content": "leave"}], "labels": ["board"]}
        async with service.client.post(f"{service.url}/v1/chat/completions", json=chat, headers=headers) as response:
            assert response.status == 200
        for path in ("documents", "documents/d0"):
            async with service.client.get(f"{service.url}/v1/collections/handbook/{path}", headers=headers) as response:
                assert response.status == 200
        path = f"{service.url}/v1/collections/handbook/documents/d0"
        async with service.client.delete(path, headers=headers) as response:
            assert response.status == 202
        assert {query.caller.labels for query in service.stages.retriever.queries} == {frozenset({"hr"})}
        assert set(service.stages.catalog.labels) == {frozenset({"hr"})}
