"""How a collection is cut: shown, chosen, refused; and a document's passages as they were cut."""

from __future__ import annotations

import pytest

from pipeline.chunking import Chunking, Cut
from tests.fakes_api import Running, Service

CHUNKING = "/v1/collections/handbook/chunking"


async def put(service: Service, body: object, path: str = CHUNKING) -> tuple[int, dict[str, object], str | None]:
    async with service.client.put(service.url + path, json=body) as response:
        return response.status, await response.json(), response.headers.get("Location")


async def test_a_choice_is_kept_and_cuts_the_collection_anew() -> None:
    async with Running() as service:
        async with service.client.get(service.url + CHUNKING) as response:
            before = await response.json()
        status, told, location = await put(service, {"chunker": "sentences", "tokens": 120, "overlap": 30})
        async with service.client.get(service.url + CHUNKING) as response:
            after = await response.json()
        assert service.stages.catalog.chosen == {"handbook": Chunking(Cut.SENTENCES, 120, 30, 32)}
        assert service.stages.nudge.times == 1
        again, same, _ = await put(service, {"chunker": "sentences", "tokens": 120, "overlap": 30})
        assert service.stages.nudge.times == 1
    assert before == {
        "chunker": None, "tokens": None, "overlap": None, "minimum": None, "made_by": "sentences-2:200", "job": None
    }  # fmt: skip
    assert (status, location, told["job"]["kind"]) == (202, "/v1/jobs/job0", "refresh")  # type: ignore[index]
    assert (again, same["job"]) == (200, None)
    assert (after["chunker"], after["tokens"], after["overlap"], after["minimum"]) == ("sentences", 120, 30, 32)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"chunker": "whole"}, ("whole", None, None, None)),
        ({"chunker": "tokens", "tokens": 64}, ("tokens", 64, 0, None)),
        ({"chunker": "headings", "minimum": 20}, ("headings", 200, 0, 20)),
    ],
)
async def test_only_sizes_that_mean_something_are_shown(body: object, shown: tuple[object, ...]) -> None:
    async with Running() as service:
        _, told, _ = await put(service, body)
    assert (told["chunker"], told["tokens"], told["overlap"], told["minimum"]) == shown


async def test_a_collection_that_is_not_there_yet_is_made_by_its_choice() -> None:
    async with Running() as service:
        async with service.client.get(f"{service.url}/v1/collections/new/chunking") as response:
            assert response.status == 404
        status, told, _ = await put(service, {"chunker": "tokens"}, "/v1/collections/new/chunking")
        assert (status, told["chunker"]) == (202, "tokens")
        status, told, _ = await put(service, {"chunker": None}, "/v1/collections/new/chunking")
        assert (status, told["chunker"]) == (202, None)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({"chunker": "pages"}, "chunker", "'tokens', 'sentences', 'headings', 'whole'"),
        ({"chunker": "tokens", "tokens": 4}, "tokens", "16 to 8192"),
        ({"chunker": "tokens", "overlap": 101}, "overlap", "0 to 100"),
        ({"chunker": "whole", "tokens": 100}, "tokens", "Leave it out"),
        ({"chunker": None, "tokens": 100}, "tokens", "without a chunker"),
        ({}, "chunker", "required"),
        ({"chunker": "tokens", "size": 3}, "size", "openapi"),
    ],
)
async def test_what_cannot_be_chosen_says_what_can(body: object, field: str, says: str) -> None:
    async with Running() as service:
        status, told, _ = await put(service, body)
        assert service.stages.catalog.chosen == {}
    error = told["error"]
    assert (status, error["param"]) == (400, field)  # type: ignore[index]
    assert says in error["message"]  # type: ignore[index]


async def test_a_document_s_passages_are_listed_with_their_links_page_by_page() -> None:
    async with Running() as service:
        url = f"{service.url}/v1/collections/handbook/documents/d1/passages"
        async with service.client.get(f"{url}?limit=2") as response:
            first = await response.json()
        async with service.client.get(f"{url}?limit=2&after=1") as response:
            last = await response.json()
        async with service.client.get(f"{service.url}/v1/collections/handbook/documents/d9/passages") as response:
            assert response.status == 404
    links = [(each["id"], each["previous"], each["next"]) for each in (*first["data"], *last["data"])]
    assert links == [("d1:0", None, "d1:1"), ("d1:1", "d1:0", "d1:2"), ("d1:2", "d1:1", None)]
    assert {(each["parent"], each["start"]) for each in first["data"]} == {("d1#0", 0), ("d1#0", 3)}
    assert (first["next"], last["next"]) == (1, None)


async def test_a_retrieved_passage_tells_its_section_and_what_stands_around_it() -> None:
    async with Running() as service, await service.retrieve(pack={"expand": "neighbours"}) as response:
        assert response.status == 200
        (result,) = (await response.json())["results"]
        ((query,),) = [service.stages.retriever.queries]  # type: ignore[union-attr]
    assert query.profile.pack.expand == "neighbours"
    for passage in result["passages"]:
        assert (passage["parent"], passage["previous"], passage["next"]) == (None, None, None)


async def test_what_cannot_be_expanded_is_refused() -> None:
    async with Running() as service, await service.retrieve(pack={"expand": "everything"}) as response:
        assert response.status == 400
        assert (await response.json())["error"]["param"] == "pack.expand"
