"""Passages within a deadline."""

from __future__ import annotations

import pytest

from pipeline.clock import Stage
from pipeline.errors import Overloaded
from pipeline.passages import Degraded, Leg
from pipeline.profile import Fusion
from tests.fakes_api import FakeRetriever, Gate, Running


async def test_passages_come_with_their_ranks_on_both_legs_and_where_the_time_went() -> None:
    async with Running() as service, await service.retrieve(top_k=2) as response:
        body = await response.json()
    assert response.status == 200
    (result,) = body["results"]
    assert [passage["id"] for passage in result["passages"]] == ["leave:0", "notice:0"]
    first = result["passages"][0]
    assert first["legs"] == {"lexical": {"rank": 1, "score": 9.0}, "dense": {"rank": 3, "score": 0.5}}
    assert (first["number"], first["page"], first["heading"]) == (1, 3, ["Time", "Leave"])
    assert first["rerank_score"] is None
    assert result["dropped"] == {"top_k": 1}
    assert result["tokens"] == 12
    assert result["generation"] == "handbook@7"
    assert result["query"] == {"text": "How many days of leave?", "asides": []}
    assert result["degraded"] == []
    stages = [lap["stage"] for lap in result["timings"]["laps"]]
    assert stages == ["dense", "rerank", "pack"]
    assert all(lap["granted_ms"] <= 5000 for lap in result["timings"]["laps"])
    assert body["id"] == response.headers["X-Request-Id"]
    timing = response.headers["Server-Timing"]
    assert timing.startswith("total;dur=")
    assert "dense;dur=" in timing


async def test_several_queries_are_searched_at_the_same_time_and_answered_in_order() -> None:
    retriever = FakeRetriever()
    queries = [f"query {number}" for number in range(16)]
    async with (
        Running(retriever=retriever) as service,
        await service.retrieve(query=queries, collection=None, collections=["handbook", "laws"]) as response,
    ):
        body = await response.json()
    assert [result["query"]["text"] for result in body["results"]] == queries
    assert retriever.together == 16
    assert retriever.queries[0].collections == ("handbook", "laws")


async def test_every_stage_option_overrides_the_profile_and_nothing_else() -> None:
    retriever = FakeRetriever()
    asked = {
        "profile": "quick",
        "top_k": 3,
        "token_budget": 400,
        "search": {"legs": ["dense"], "candidates": 30, "fusion": "min_max", "dense_weight": 0.7},
        "rerank": {"depth": 0},
        "pack": {"join_neighbours": False},
    }
    async with Running(retriever=retriever) as service, await service.retrieve(**asked) as response:
        assert response.status == 200
    profile = retriever.queries[0].profile
    assert (profile.name, profile.deadline, profile.rerank.depth) == ("quick", 0.5, 0)
    assert (profile.search.legs, profile.search.candidates) == ((Leg.DENSE,), 30)
    assert (profile.search.fusion, profile.search.rrf_k, profile.search.dense_weight) == (Fusion.MIN_MAX, 60, 0.7)
    assert (profile.pack.top_k, profile.pack.token_budget, profile.pack.join_neighbours) == (3, 400, False)
    assert profile.pack.similarity == 0.9


@pytest.mark.parametrize("way", ["body", "header", "both"])
async def test_a_deadline_in_body_or_header_bounds_the_response(way: str) -> None:
    retriever = FakeRetriever()
    retriever.gate = Gate(opened=False)
    headers = {} if way == "body" else {"X-Request-Deadline-Ms": "40"}
    body: dict[str, object] = {"query": "leave", "collection": "handbook"}
    if way != "header":
        body["deadline_ms"] = 40 if way == "body" else 60_000
    async with (
        Running(retriever=retriever) as service,
        service.client.post(f"{service.url}/v1/retrieve", json=body, headers=headers) as response,
    ):
        assert response.status == 504
        assert "Raise deadline_ms" in (await response.json())["error"]["message"]
    assert retriever.gate.left.is_set() is retriever.gate.reached.is_set()


async def test_an_overloaded_search_says_when_to_come_back_or_not_to() -> None:
    retriever = FakeRetriever()
    async with Running(retriever=retriever) as service:
        retriever.error = Overloaded("The line is full.", retry_after=0.2)
        async with await service.retrieve() as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
            assert response.headers["Retry-After-Ms"] == "200"
        retriever.error = Overloaded("It will stay full.", retry_after=None)
        async with await service.retrieve() as response:
            assert response.status == 503
            assert "Retry-After" not in response.headers
            assert response.headers["X-Should-Retry"] == "false"


async def test_what_was_given_up_is_said() -> None:
    retriever = FakeRetriever()
    retriever.degraded = (Degraded(Stage.LEXICAL, "no_terms"),)
    async with Running(retriever=retriever) as service, await service.retrieve() as response:
        body = await response.json()
    assert body["results"][0]["degraded"] == [{"stage": "lexical", "reason": "no_terms", "detail": ""}]


async def test_an_unknown_collection_or_profile_names_the_known() -> None:
    async with Running() as service:
        async with await service.retrieve(collection="nothing") as response:
            assert response.status == 404
            assert "Known: handbook, laws" in (await response.json())["error"]["message"]
        async with await service.retrieve(profile="nothing") as response:
            assert response.status == 404
            assert "Known: default, quick" in (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"query": ""}, 400, "query"),
        ({"query": []}, 400, "query"),
        ({"query": ["a", " "]}, 400, "query[1]"),
        ({"query": ["a"] * 17}, 400, "query"),
        ({"query": "a" * 9000}, 413, "query"),
        ({"collection": None}, 400, "collection"),
        ({"collections": ["laws"]}, 400, "collection"),
        ({"top_k": 0}, 400, "top_k"),
        ({"search": {"legs": ["sparse"]}}, 400, "search.legs[0]"),
        ({"search": {"candidates": 100_000}}, 400, "search.candidates"),
        ({"rerank": {"depth": 10_000}}, 400, "rerank.depth"),
        ({"unknown": 1}, 400, "unknown"),
        ({"query": "\ud800"}, 400, "query"),
        ({"query": 5}, 400, "query"),
        ({"query": ["a", 5]}, 400, "query[1]"),
        ({"\ud800": 5}, 400, "body"),
        ({"collection": "\ud800"}, 400, "collection"),
    ],
)
async def test_a_request_that_cannot_be_used_names_the_field(body: dict[str, object], status: int, field: str) -> None:
    async with Running() as service, await service.retrieve(**body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["param"]) == (status, field)


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        (b'{"query": ', "application/json", "is not JSON"),
        (b"query=leave", "application/x-www-form-urlencoded", "Content-Type: application/json"),
        (b'{"query": "\xff"}', "application/json", "UTF-8"),
        (b"", "application/json", "body"),
    ],
)
async def test_a_body_that_is_no_json_is_told_so(content: bytes, kind: str, says: str) -> None:
    async with (
        Running() as service,
        service.client.post(f"{service.url}/v1/retrieve", data=content, headers={"Content-Type": kind}) as response,
    ):
        assert response.status == 400
        assert says in (await response.json())["error"]["message"]
