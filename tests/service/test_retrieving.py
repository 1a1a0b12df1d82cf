"""`POST /v1/retrieve` on the handbook: what a passage tells of itself, and what a request may ask for."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import combinations, pairwise
from typing import Any

import aiohttp
import pytest

from tests.running_service import MARKS, answered, finished, retrieved, sent, sources
from tests.service.conftest import TINY_RERANKER

pytestmark = MARKS

RRF_K = 60
TWINS = [
    ("broken arm or leg first aid until the doctor comes", "safety/first-aid.md", "notices/first-aid-board.md"),
    ("lost and found things kept at counter 3", "notices/lost-property.md", "notices/lost-property-poster.txt"),
    (
        "locomotive Philippa steam Sunday coal",
        "operations/steam-days.md",
        "notices/steam-days-for-the-press.md",
    ),
]


async def test_a_passage_tells_where_each_leg_placed_it_and_the_order_is_the_fusion_of_both(
    client: aiohttp.ClientSession,
) -> None:
    result = await retrieved(client, "How strong may gusts get before trains stop?", top_k=10, token_budget=5000)
    passages = result["passages"]
    assert len(passages) > 3
    fused = [sum(1 / (RRF_K + hit["rank"]) for hit in passage["legs"].values()) for passage in passages]
    assert fused == sorted(fused, reverse=True)
    for passage in passages:
        assert passage["legs"]
        assert all(hit["rank"] >= 1 for hit in passage["legs"].values())
        assert passage["rerank_score"] is None
    assert any(passage["legs"].keys() == {"lexical", "dense"} for passage in passages)
    for leg in ("lexical", "dense"):
        hits = sorted((p["legs"][leg]["rank"], -p["legs"][leg]["score"]) for p in passages if leg in p["legs"])
        assert hits == sorted(hits, key=lambda hit: (hit[1], hit[0]))
    assert [passage["number"] for passage in passages] == list(range(1, len(passages) + 1))


async def test_a_result_tells_why_it_has_fewer_passages_than_were_asked_for(client: aiohttp.ClientSession) -> None:
    apart = {"join_neighbours": False}
    all_of_them = await retrieved(client, TWINS[0][0], top_k=50, token_budget=20_000, pack=apart)
    few = await retrieved(client, TWINS[0][0], top_k=2, token_budget=20_000, pack=apart)
    narrow = await retrieved(client, TWINS[0][0], top_k=50, token_budget=400, pack=apart)
    ranked = {len(each["passages"]) + sum(each["dropped"].values()) for each in (all_of_them, few, narrow)}
    assert len(ranked) == 1, "the same were ranked, and each is returned or counted"
    assert all_of_them["dropped"]["duplicate"] >= 1
    assert "budget" not in all_of_them["dropped"]
    assert few["dropped"]["top_k"] >= 1
    assert narrow["dropped"]["budget"] >= 1


@pytest.mark.parametrize("legs", [["lexical"], ["dense"], ["lexical", "dense"]])
@pytest.mark.parametrize("fusion", ["rrf", "min_max"])
async def test_scores_strictly_decrease_however_they_came_about(
    client: aiohttp.ClientSession, legs: list[str], fusion: str
) -> None:
    search = {"legs": legs, "fusion": fusion}
    result = await retrieved(client, "refund of a ticket", top_k=40, token_budget=20_000, search=search)
    scores = [passage["score"] for passage in result["passages"]]
    assert len(scores) > 5
    assert all(better > worse for better, worse in pairwise(scores))
    assert {leg for passage in result["passages"] for leg in passage["legs"]} == set(legs)


async def test_the_token_budget_is_obeyed_and_used(client: aiohttp.ClientSession) -> None:
    taken: list[int] = []
    for budget in (60, 200, 600, 1500):
        result = await retrieved(client, "What happens in winter?", top_k=50, token_budget=budget)
        assert result["tokens"] == sum(passage["tokens"] for passage in result["passages"]) <= budget
        taken.append(result["tokens"])
    assert taken == sorted(taken)
    assert taken[-1] > 600
    few = await retrieved(client, "What happens in winter?", top_k=2, token_budget=1500)
    assert len(few["passages"]) <= 2


async def test_sixteen_queries_are_answered_in_order_and_seventeen_are_refused(client: aiohttp.ClientSession) -> None:
    queries = [f"{what} at {where}" for what in ("tickets", "dogs", "tea", "snow") for where in "ABCD"]
    body = {"query": queries, "collection": "handbook", "top_k": 2, "deadline_ms": 30_000}
    results = (await answered(client, "POST", "/v1/retrieve", json=body))["results"]
    assert [result["query"]["text"] for result in results] == queries
    assert all(result["passages"] for result in results)
    refused = await answered(client, "POST", "/v1/retrieve", 400, json={**body, "query": [*queries, "one more"]})
    assert refused["error"]["param"] == "query"
    assert "17" in refused["error"]["message"]
    assert "16" in refused["error"]["message"]


async def test_several_collections_are_searched_as_one(client: aiohttp.ClientSession) -> None:
    await finished(
        client, await sent(client, "t-second", zoo="A marmot in the zoo sleeps on the track of a toy train.")
    )
    result = await retrieved(
        client, "marmot on the track", collection=None, collections=["t-second", "handbook"], top_k=5
    )
    assert {"zoo.md", "notices/marmots.md"} <= set(sources(result))
    assert {part.partition("@")[0] for part in result["generation"].split("+")} == {"handbook", "t-second"}
    scores = [passage["score"] for passage in result["passages"]]
    assert all(better > worse for better, worse in pairwise(scores))
    unknown = {"query": "marmot", "collections": ["handbook", "t-nowhere"]}
    refused = await answered(client, "POST", "/v1/retrieve", 404, json=unknown)
    assert "t-nowhere" in refused["error"]["message"]


@pytest.mark.parametrize("deadline_ms", [0.001, 0.5, 1, 2, 4, 8])
async def test_a_deadline_too_short_to_keep_is_told_and_never_a_failure(
    client: aiohttp.ClientSession, deadline_ms: float
) -> None:
    body = {"query": f"wind limits within {deadline_ms} ms", "collection": "handbook", "deadline_ms": deadline_ms}
    async with client.post("/v1/retrieve", json=body) as response:
        told = await response.json()
        assert "total;dur=" in response.headers["Server-Timing"]
        if response.status == 504:
            assert told["error"]["code"] == "out_of_time"
            assert response.headers["X-Should-Retry"] == "false"
            return
        if response.status == 503:  # the machine is busy: the loop's lag alone is longer than the deadline
            assert told["error"]["code"] == "overloaded"
            assert "Retry-After" in response.headers
            return
        assert response.status == 200, told
    (result,) = told["results"]
    assert result["passages"]
    cut = [lap["stage"] for lap in result["timings"]["laps"] if lap["cut"]]
    assert all(any(given_up["stage"] == stage for given_up in result["degraded"]) for stage in cut)


async def test_the_two_searches_overlap_and_so_do_reranking_duplicates_and_sizes(
    wired_client: aiohttp.ClientSession,
) -> None:
    if not TINY_RERANKER.is_dir():
        pytest.skip(f"there is no reranker at {TINY_RERANKER}")
    result = await retrieved(wired_client, "Which whistle does the driver sound before the tunnel?", top_k=5)
    assert result["passages"][0]["rerank_score"] is not None
    assert result["degraded"] == []
    laps = {lap["stage"]: span(lap) for lap in result["timings"]["laps"]}
    assert overlap(laps["lexical"], (laps["encode"][0], laps["dense"][1]))
    assert overlap(laps["rerank"], laps["duplicates"])
    assert overlap(laps["rerank"], laps["sizes"])
    assert max(laps["lexical"][1], laps["dense"][1]) <= laps["fuse"][0] + ROUNDING
    assert laps["fuse"][1] <= min(laps[stage][0] for stage in ("rerank", "duplicates", "sizes")) + ROUNDING
    assert max(laps[stage][1] for stage in ("rerank", "duplicates", "sizes")) <= laps["pack"][0] + ROUNDING


ROUNDING = 0.002  # of milliseconds on the wire


def span(lap: dict[str, Any]) -> tuple[float, float]:
    """When a lap began and ended, in milliseconds."""
    return lap["started_ms"], lap["started_ms"] + lap["waited_ms"] + lap["worked_ms"]


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


async def test_pieces_of_one_table_are_no_repetitions_of_each_other(client: aiohttp.ClientSession) -> None:
    plainly: dict[str, Any] = {"top_k": 50, "token_budget": 20_000}
    for query, table in (
        ("timetable summer Underhollow Goat Saddle Corvane Summit runs daily", "timetable/summer-2026.csv"),
        ("fares single return child class from to", "tariffs/fares.csv"),
    ):
        every = await retrieved(client, query, **plainly, pack={"similarity": 2, "join_neighbours": False})
        once = await retrieved(client, query, **plainly, pack={"join_neighbours": False})
        assert sources(every).count(table) == sources(once).count(table) > 3


@pytest.mark.parametrize(("query", "original", "copy"), TWINS)
async def test_what_two_documents_both_say_reaches_the_context_once(
    client: aiohttp.ClientSession, query: str, original: str, copy: str
) -> None:
    plainly: dict[str, Any] = {"top_k": 20, "token_budget": 5000}
    every = await retrieved(client, query, **plainly, pack={"similarity": 2, "join_neighbours": False})
    once = await retrieved(client, query, **plainly, pack={"join_neighbours": False})
    assert alike(every, original, copy) > 0, "the search finds both where duplicates are kept"
    assert alike(once, original, copy) == 0
    assert {original, copy} & set(sources(once))


def alike(result: dict[str, Any], original: str, copy: str) -> int:
    """How many pairs of passages from these two documents have nearly the same words."""
    texts = [(p["source"], p["text"].split()) for p in result["passages"] if p["source"] in {original, copy}]
    return sum(
        one[0] != other[0] and SequenceMatcher(None, one[1], other[1], autojunk=False).ratio() > 0.8
        for one, other in combinations(texts, 2)
    )
