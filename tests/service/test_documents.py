"""From a file to a passage: searchable once sent, free when sent again, gone when changed or deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from tests.examples.handbook import documents, plain, text_of
from tests.running_service import HANDBOOK, MARKS, Api, answered, command, finished, retrieved, sent, sources
from tests.service.conftest import Sent

pytestmark = MARKS

EMPTY = "notices/to-follow.md"


async def listed(client: aiohttp.ClientSession, collection: str) -> dict[str, dict[str, Any]]:
    """Every document of a collection by name, read in small pages."""
    found: dict[str, dict[str, Any]] = {}
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        after = f"&after={page['next']}" if page["next"] else ""
        page = await answered(client, "GET", f"/v1/collections/{collection}/documents?limit=25{after}")
        assert found.keys().isdisjoint(document["name"] for document in page["data"])
        found |= {document["name"]: document for document in page["data"]}
    return found


async def test_every_file_of_the_handbook_is_kept_and_the_empty_one_failed_with_its_reason(
    handbook: Sent, client: aiohttp.ClientSession
) -> None:
    assert handbook.status == 3
    assert handbook.told["counts"] == {"published": len(documents()) - 1, "failed": 1}
    ((name, reason),) = [(item["name"], item["reason"]) for item in handbook.told["failed"]]
    assert name == EMPTY
    assert "empty" in reason
    kept = await listed(client, "handbook")
    assert kept.keys() == documents().keys() - {EMPTY}
    assert all(document["passages"] > 0 and document["tokens"] > 0 for document in kept.values())


async def test_every_file_of_the_handbook_is_found_by_its_own_words(client: aiohttp.ClientSession) -> None:
    wanted = [(name, own_words(path)) for name, path in documents().items() if name != EMPTY]
    missed: list[str] = []
    for start in range(0, len(wanted), 16):
        batch = wanted[start : start + 16]
        body = {
            "query": [words for _, words in batch],
            "collection": "handbook",
            "top_k": 5,
            "token_budget": 5000,
            "pack": {"similarity": 2, "join_neighbours": False},
            "deadline_ms": 30_000,
        }
        results = (await answered(client, "POST", "/v1/retrieve", json=body))["results"]
        missed += [name for (name, _), result in zip(batch, results, strict=True) if name not in sources(result)]
    assert missed == []


def own_words(path: Path) -> str:
    """Words from the middle of a file."""
    words = plain(text_of(path)).split(" ")
    middle = len(words) // 2
    return " ".join(words[max(middle - 20, 0) : middle + 20])


async def test_sending_the_handbook_again_costs_nothing(api: Api, client: aiohttp.ClientSession) -> None:
    before = await answered(client, "GET", "/v1/collections/handbook")
    again = command("ingest", "--collection", "handbook", "--url", api.url, str(HANDBOOK))
    assert again.returncode == 3
    assert f"{len(documents()) - 1} unchanged" in again.stdout
    assert EMPTY in again.stdout
    assert await answered(client, "GET", "/v1/collections/handbook") == before


async def test_a_changed_file_replaces_its_old_text_by_the_time_its_job_is_done(client: aiohttp.ClientSession) -> None:
    job = await finished(
        client, await sent(client, "t-changed", a="The vault opens with heliotrope.", b="Tea is at four.")
    )
    assert job["counts"] == {"published": 2}
    assert "heliotrope" in (await retrieved(client, "vault opens with", "t-changed"))["passages"][0]["text"]
    for word in ("mezzotint", "quincunx", "scrimshaw"):
        job = await finished(client, await sent(client, "t-changed", a=f"The vault opens with {word}."))
        assert (job["state"], job["counts"]) == ("done", {"published": 1})
        found = await retrieved(client, "vault opens with", "t-changed")
        assert [passage["text"] for passage in found["passages"]] == [
            f"The vault opens with {word}.",
            "Tea is at four.",
        ]
    gone = await retrieved(client, "heliotrope", "t-changed", search={"legs": ["lexical"]})
    assert gone["passages"] == []
    assert len(await listed(client, "t-changed")) == 2


async def test_a_deleted_document_is_gone_from_search_when_its_job_is_done(client: aiohttp.ClientSession) -> None:
    await finished(client, await sent(client, "t-deleted", a="The ferry leaves at nine.", b="The ferry is blue."))
    for name in ("a.md", "b.md"):
        document = (await listed(client, "t-deleted"))[name]
        path = f"/v1/collections/t-deleted/documents/{document['id']}"
        job = await finished(client, await answered(client, "DELETE", path, 202))
        assert job["state"] == "done"
        assert name not in sources(await retrieved(client, "ferry", "t-deleted"))
        await answered(client, "GET", path, 404)
    assert (await answered(client, "GET", "/v1/collections/t-deleted"))["documents"] == 0


async def test_a_deleted_collection_is_unknown_at_once_and_the_error_names_the_known(
    client: aiohttp.ClientSession,
) -> None:
    await finished(client, await sent(client, "t-forgotten", a="Nobody will remember this."))
    assert len((await retrieved(client, "remember", "t-forgotten"))["passages"]) == 1
    await answered(client, "DELETE", "/v1/collections/t-forgotten")
    asked = {"query": "remember", "collection": "t-forgotten"}
    for refused in (
        await answered(client, "POST", "/v1/retrieve", 404, json=asked),
        await answered(client, "GET", "/v1/collections/t-forgotten", 404),
        await answered(client, "DELETE", "/v1/collections/t-forgotten", 404),
    ):
        assert refused["error"]["code"] == "not_found"
        assert "'t-forgotten'" in refused["error"]["message"]
        assert "handbook" in refused["error"]["message"]
    again = await finished(client, await sent(client, "t-forgotten", b="Somebody begins anew."))
    assert again["counts"] == {"published": 1}
    assert sources(await retrieved(client, "remember", "t-forgotten")) == ["b.md"]
