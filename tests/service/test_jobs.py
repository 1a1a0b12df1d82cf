"""A job told as it goes, an upload refused for its size, and a bad document that fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

from tests.running_service import MARKS, PATIENCE, Event, answered, events, finished, retrieved, sent, sources
from tests.service.conftest import UPLOAD_LIMIT

pytestmark = MARKS


async def test_a_job_is_followed_from_what_was_accepted_to_its_end(client: aiohttp.ClientSession) -> None:
    texts = {f"d{number}": f"Document {number} speaks of the number {number}." for number in range(30)}
    job = await sent(client, "t-followed", **texts)
    assert (job["state"], job["total"]) == ("accepted", 30)
    async with asyncio.timeout(PATIENCE), client.get(f"/v1/jobs/{job['id']}/events") as response:
        told: list[Event] = [event async for event in events(response)]
    assert [event.name for event in told] == ["progress"] * (len(told) - 1) + ["done"]
    assert all(sum(event.json()["counts"].values()) == 30 for event in told)
    searchable = [event.json()["counts"].get("published", 0) for event in told]
    assert searchable == sorted(searchable)
    assert searchable[-1] == 30
    last = told[-1].json()
    assert last == await answered(client, "GET", f"/v1/jobs/{job['id']}")
    collection = await answered(client, "GET", "/v1/collections/t-followed")
    assert (collection["documents"], collection["generation"]) == (30, last["generation"])
    items = await answered(client, "GET", f"/v1/jobs/{job['id']}/items?limit=20")
    assert [item["name"] for item in items["data"]] == [f"d{number}.md" for number in range(20)]
    assert job["id"] in [each["id"] for each in (await answered(client, "GET", "/v1/jobs"))["data"]]


async def test_a_document_that_cannot_be_read_fails_alone(client: aiohttp.ClientSession) -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("files", b"# Good\n\nThis one is sound.", filename="good.md")
    form.add_field("files", b"%PDF-1.7\nnothing behind it", filename="broken.pdf", content_type="application/pdf")
    form.add_field("files", b"PK\x03\x04 not a document", filename="broken.docx")
    form.add_field("files", b"", filename="empty.txt")
    job = await finished(client, await answered(client, "POST", "/v1/collections/t-bad/documents", 202, data=form))
    assert (job["state"], job["counts"]) == ("done", {"published": 1, "failed": 3})
    reasons = {item["name"]: item["reason"] for item in job["failed"]}
    assert reasons.keys() == {"broken.pdf", "broken.docx", "empty.txt"}
    assert all(name in reason for name, reason in reasons.items())
    assert sources(await retrieved(client, "sound", "t-bad")) == ["good.md"]


async def test_an_upload_over_the_limit_is_refused_and_leaves_nothing(wired_client: aiohttp.ClientSession) -> None:
    path = "/v1/collections/t-large/documents"
    form = aiohttp.FormData()
    form.add_field("files", b"x" * UPLOAD_LIMIT, filename="large.txt")
    refused = await answered(wired_client, "POST", path, 413, data=form)
    assert refused["error"]["code"] == "too_large"
    assert str(UPLOAD_LIMIT) in refused["error"]["message"]
    unannounced = {"Content-Type": "application/x-ndjson"}
    refused = await answered(wired_client, "POST", path, 413, data=in_pieces(), headers=unannounced)
    assert str(UPLOAD_LIMIT) in refused["error"]["message"]
    await answered(wired_client, "GET", "/v1/collections/t-large", 404)
    job = await finished(wired_client, await sent(wired_client, "t-small", a="This fits."))
    assert job["counts"] == {"published": 1}


async def in_pieces() -> AsyncGenerator[bytes, None]:
    """A body whose length nobody has said, and that goes on for twice the limit."""
    line = b'{"name": "%d", "text": "' + b"x" * 9_000 + b'"}\n'
    for number in range(2 * UPLOAD_LIMIT // len(line)):
        yield line % number
