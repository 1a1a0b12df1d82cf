"""A real service tells why it finds a document, and cuts a collection anew while it is read."""

from __future__ import annotations

import json
from itertools import pairwise

import aiohttp

from tests.running_service import MARKS, Api, answered, command, finished, retrieved, sent

pytestmark = MARKS

LOST = "How long are lost things kept?"
TEXT = "# Rules\n\n" + " ".join(
    f"Rule {number} says that guests of room {number} leave the key of room {number} at the desk."
    for number in range(1, 25)
)


async def test_a_document_that_is_found_says_where_each_leg_placed_it(client: aiohttp.ClientSession) -> None:
    asked = {"query": LOST, "document": "stations/underhollow.md", "deadline_ms": 30_000}
    told = await answered(client, "POST", "/v1/collections/handbook/explain", json=asked)
    assert (told["document"]["state"], told["verdict"]) == ("published", "packed")
    found = await retrieved(client, LOST)
    by_id = {passage["id"]: passage for passage in found["passages"]}
    compared = 0
    for passage in told["passages"]:
        for leg, place in passage["legs"].items():
            if passage["id"] in by_id and leg in by_id[passage["id"]]["legs"]:
                hit = by_id[passage["id"]]["legs"][leg]
                assert (place["rank"], place["served"]) == (hit["rank"], hit["rank"])
                assert abs(place["score"] - hit["score"]) < 1e-4
                compared += 1
        terms = passage["legs"]["lexical"]["terms"]
        score = passage["legs"]["lexical"]["score"] or 0.0
        assert abs(sum(term["score"] for term in terms) - score) < 1e-3
    assert compared > 0


async def test_one_that_says_what_another_says_names_that(client: aiohttp.ClientSession) -> None:
    asked = {"query": LOST, "document": "notices/lost-property.md", "deadline_ms": 30_000}
    told = await answered(client, "POST", "/v1/collections/handbook/explain", json=asked)
    assert told["verdict"] == "duplicate"
    instead = told["passages"][0]["instead"].partition(":")[0]
    poster = await answered(client, "GET", f"/v1/collections/handbook/documents/{instead}")
    assert poster["name"] == "notices/lost-property-poster.txt"


async def test_one_that_is_not_found_says_what_kept_it_out(client: aiohttp.ClientSession) -> None:
    path = "/v1/collections/handbook/explain"
    asked = {"query": LOST, "document": "tariffs/fares.csv", "deadline_ms": 30_000, "search": {"candidates": 3}}
    told = await answered(client, "POST", path, json=asked)
    assert told["verdict"] == "candidates"
    best = told["passages"][0]["legs"]["dense"]
    assert best["rank"] > 3
    assert best["served"] is None
    asked["filters"] = {"type": "eq", "key": "language", "value": "ja"}
    told = await answered(client, "POST", path, json=asked)
    assert told["verdict"] == "filter"
    assert "language eq 'ja'" in told["said"]
    told = await answered(client, "POST", path, json={"query": LOST, "document": "notices/to-follow.md"})
    assert (told["document"]["state"], told["verdict"]) == ("failed", "not_indexed")
    assert "the file is empty" in told["said"]
    told = await answered(client, "POST", path, json={"query": LOST, "document": "never-sent.md"})
    assert told["document"]["state"] == "unknown"


async def test_the_command_explains_and_chooses(api: Api, client: aiohttp.ClientSession) -> None:
    done = command("explain", LOST, "notices/lost-property.md", "-c", "handbook", "--url", api.url)
    assert done.returncode == 0, done.stderr
    assert "verdict  duplicate: It says nearly the same as" in done.stdout
    await finished(client, await sent(client, "t-command", rules=TEXT))
    done = command(
        "chunking", "t-command", "--chunker", "tokens", "--tokens", "40", "--overlap", "10", "--json", "--url", api.url
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["job"]["state"], told["made_by"].split(":")[:3]) == ("done", ["tokens-1", "40", "10"])


async def test_a_collection_is_cut_anew_and_a_hit_comes_with_its_section(client: aiohttp.ClientSession) -> None:
    await finished(client, await sent(client, "t-cut", rules=TEXT))
    before = await retrieved(client, "the key of room 7", "t-cut", top_k=1)
    asked = {"chunker": "sentences", "tokens": 48, "overlap": 24}
    chosen = await answered(client, "PUT", "/v1/collections/t-cut/chunking", 202, json=asked)
    job = await finished(client, chosen["job"])
    assert (job["kind"], job["counts"]) == ("refresh", {"published": 1})
    document = before["passages"][0]["document_id"]
    listed = await answered(client, "GET", f"/v1/collections/t-cut/documents/{document}/passages")
    pieces = listed["data"]
    assert len(pieces) > 8
    assert all(piece["tokens"] <= 48 for piece in pieces)
    assert any(a["start"] + len(a["text"]) > b["start"] for a, b in pairwise(pieces))
    alone = await retrieved(client, "the key of room 7", "t-cut", top_k=1)
    (hit,) = alone["passages"]
    assert hit["parent"] == pieces[0]["parent"]
    assert {hit["previous"], hit["next"]} != {None}
    options = {"top_k": 1, "token_budget": 4000, "pack": {"expand": "parent"}}
    (whole,) = (await retrieved(client, "the key of room 7", "t-cut", **options))["passages"]
    assert whole["text"] == TEXT.removeprefix("# Rules\n\n")
    assert len(whole["joined"]) == len(pieces)
    (beside,) = (await retrieved(client, "the key of room 7", "t-cut", top_k=1, pack={"expand": "neighbours"}))[
        "passages"
    ]
    assert len(beside["joined"]) in {2, 3}
