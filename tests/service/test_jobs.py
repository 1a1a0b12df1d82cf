"""A job told as it goes and when it ends, made once, retried; uploads refused, tried, and not sent twice."""

from __future__ import annotations

import asyncio
import hmac
import json
import shutil
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web

from tests.running_service import (
    MARKS,
    PATIENCE,
    Api,
    Event,
    answered,
    command,
    events,
    finished,
    retrieved,
    sent,
    sources,
)
from tests.service.conftest import HOOK_SECRET, UPLOAD_LIMIT

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


async def test_a_request_that_is_sent_twice_under_one_key_is_one_job(client: aiohttp.ClientSession) -> None:
    body = {"documents": [{"name": "once.md", "text": "This comes once."}]}
    path, key = "/v1/collections/t-once/documents", {"Idempotency-Key": "t-once-1"}
    first, second = await asyncio.gather(*(answered(client, "POST", path, 202, json=body, headers=key) for _ in "ab"))
    assert first["id"] == second["id"]
    assert (await finished(client, first))["counts"] == {"published": 1}
    again = await answered(client, "POST", path, 202, json=body, headers=key)
    assert (again["id"], again["state"]) == (first["id"], "done")
    other = {"documents": [{"name": "once.md", "text": "This is another."}]}
    refused = await answered(client, "POST", path, 409, json=other, headers=key)
    assert first["id"] in refused["error"]["message"]


async def test_what_failed_is_listed_as_csv_and_tried_again_without_being_sent(client: aiohttp.ClientSession) -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("files", b"# Good\n\nThis one is sound.", filename="good.md")
    form.add_field("files", b"%PDF-1.7\nnothing behind it", filename="broken.pdf")
    job = await finished(client, await answered(client, "POST", "/v1/collections/t-retry/documents", 202, data=form))
    assert (job["retryable"], job["passages"]["published"]) == (1, 1)
    async with client.get(f"/v1/jobs/{job['id']}/failed.csv") as response:
        head, row = (await response.text()).splitlines()
    assert head == "name,document_id,reason"
    assert row.startswith("broken.pdf,")
    retry = await answered(client, "POST", f"/v1/jobs/{job['id']}/retry", 202)
    assert (await answered(client, "POST", f"/v1/jobs/{job['id']}/retry", 202))["id"] == retry["id"]
    ended = await finished(client, retry)
    assert (ended["state"], ended["counts"], ended["retryable"]) == ("failed", {"failed": 1}, 1)
    nothing = await answered(client, "POST", f"/v1/jobs/{job['id']}/retry", 202)
    assert nothing["id"] == retry["id"]


async def test_what_is_there_need_not_be_sent_again(client: aiohttp.ClientSession) -> None:
    await finished(client, await sent(client, "t-there", a="There already.", b="Will change."))
    texts = {"a.md": "There already.", "b.md": "Has changed.", "c.md": "New."}
    offers = [{"name": name, "content_hash": sha256(text.encode()).hexdigest()} for name, text in texts.items()]
    path = "/v1/collections/t-there/documents/known"
    told = await answered(client, "POST", path, json={"documents": offers})
    assert told["data"] == [{"name": "a.md", "job": None}]


async def test_a_dry_run_reads_and_cuts_as_workers_do_and_keeps_nothing(client: aiohttp.ClientSession) -> None:
    days = (f"The tunnel at Underhollow is closed on day {number} of each month." for number in range(60))
    text = "# Tunnels\n\n" + " ".join(days)
    await finished(client, await sent(client, "t-dry", tunnels=text))
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("files", text.encode(), filename="tunnels.md")
    form.add_field("files", text.encode(), filename="copy.md")
    form.add_field("files", b"%PDF-1.7\nnothing behind it", filename="broken.pdf")
    told = await answered(client, "POST", "/v1/parse?collection=t-dry&full=true", data=form)
    same, copy, broken = told["documents"]
    assert (same["unchanged"], copy["unchanged"]) == (True, False)
    assert (copy["duplicates"][0]["kind"], copy["duplicates"][0]["name"]) == ("same", "tunnels.md")
    assert broken["error"]["code"] == "unparsable_document"
    found = await retrieved(client, "tunnel at Underhollow", "t-dry", pack={"similarity": 2, "join_neighbours": False})
    chunks = {chunk["text"]: chunk["tokens"] for chunk in same["chunks"]}
    assert len(chunks) > 1
    assert {passage["text"] for passage in found["passages"]} <= chunks.keys()
    listed = await answered(client, "GET", "/v1/collections/t-dry/documents")
    assert [document["name"] for document in listed["data"]] == ["tunnels.md"]
    assert listed["data"][0]["tokens"] == sum(chunks.values())
    await answered(client, "GET", "/v1/collections/t-nowhere", 404)


async def test_the_end_of_a_job_is_told_to_whoever_asked(wired_client: aiohttp.ClientSession) -> None:
    got: asyncio.Queue[tuple[Mapping[str, str], bytes]] = asyncio.Queue()
    statuses = iter((500, 204))

    async def hook(request: web.Request) -> web.Response:
        await got.put((dict(request.headers), await request.read()))
        return web.Response(status=next(statuses))

    app = web.Application()
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        documents = {"documents": [{"name": "a.md", "text": "Tell me when this is there."}]}
        path = f"/v1/collections/t-told/documents?webhook={quote(url, safe='')}"
        job = await finished(wired_client, await answered(wired_client, "POST", path, 202, json=documents))
        async with asyncio.timeout(PATIENCE):
            await got.get()
            headers, body = await got.get()
            while job["webhook"]["state"] == "waiting":
                await asyncio.sleep(0.2)
                job = await answered(wired_client, "GET", f"/v1/jobs/{job['id']}")
    finally:
        await runner.cleanup()
    assert (job["webhook"]["state"], job["webhook"]["attempts"]) == ("delivered", 2)
    content = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    wanted = hmac.digest(b64decode(HOOK_SECRET.removeprefix("whsec_")), content, "sha256")
    assert headers["webhook-signature"] == f"v1,{b64encode(wanted).decode()}"
    assert json.loads(body)["data"]["id"] == job["id"]


async def test_an_ingest_that_was_interrupted_goes_on_where_it_was(
    api: Api, client: aiohttp.ClientSession, tmp_path: Path
) -> None:
    for number in range(70):
        (tmp_path / f"{number:02}.md").write_text(f"# Number {number}\n\nThis is about the number {number}.")
    part = tmp_path / "part"
    part.mkdir()
    for number in range(30):
        (part / f"{number:02}.md").write_bytes((tmp_path / f"{number:02}.md").read_bytes())
    arguments = ("ingest", "--collection", "t-resumed", "--url", api.url, "--json")
    before = await asyncio.to_thread(command, *arguments, "--no-wait", str(part))
    assert before.returncode == 0, before.stderr
    shutil.rmtree(part)
    done = await asyncio.to_thread(command, *arguments, str(tmp_path))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(told["counts"].values()) == 70
    jobs = (await answered(client, "GET", "/v1/jobs?collection=t-resumed"))["data"]
    assert sorted(job["total"] for job in jobs) == [30, 40], "each document was sent once"
    assert (await answered(client, "GET", "/v1/collections/t-resumed"))["documents"] == 70
