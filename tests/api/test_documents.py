"""Documents in, jobs followed, holdings listed and removed."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from api.assembly import DoorOptions
from api.limits import Limits
from pipeline.jobs import JobState
from tests.fakes_api import Running, Service, events

DOCUMENTS = "/v1/collections/handbook/documents"
PART = b"--x\r\nContent-Disposition: form-data; name=f; filename=a\r\n\r\n"
SMALL = DoorOptions(limits=Limits(upload=4000, file=1000, files=3))


async def send(service: Service, content: object, kind: str) -> tuple[int, dict[str, object]]:
    """POSTs documents; the status and the body."""
    headers = {"Content-Type": kind}
    data = content if isinstance(content, bytes | str) else json.dumps(content)
    async with service.client.post(service.url + DOCUMENTS, data=data, headers=headers) as response:
        return response.status, await response.json()


async def test_files_are_kept_as_they_came_under_their_names() -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("metadata", json.dumps({"year": 2025, "tags": ["hr", "leave"]}))
    form.add_field("files", bytes(range(256)) * 4000, filename="time/leave.pdf", content_type="application/pdf")
    form.add_field("files", "größer\r\n--x".encode(), filename="größe.txt", content_type="text/plain")
    async with Running() as service, service.client.post(service.url + DOCUMENTS, data=form) as response:
        job = await response.json()
        kept = service.stages.catalog.kept
        assert service.stages.nudge.times == 1
    assert response.status == 202
    assert response.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert (job["state"], job["total"], job["counts"]) == ("accepted", 2, {"accepted": 2})
    ((tenant, collection, uploads),) = kept
    assert (tenant, collection) == ("default", "handbook")
    assert [(upload.name, upload.media_type) for upload in uploads] == [
        ("time/leave.pdf", "application/pdf"),
        ("größe.txt", "text/plain"),
    ]
    assert uploads[0].content == bytes(range(256)) * 4000
    assert uploads[1].content == "größer\r\n--x".encode()
    assert uploads[1].metadata == {"year": 2025, "tags": ("hr", "leave")}


async def test_texts_come_as_json_or_line_by_line_and_are_the_same() -> None:
    documents = [
        {"name": "a.md", "title": "A", "text": "# A\n\nOne.", "metadata": {"year": 1}},
        {"text": "Two, without a name."},
        {"name": "b.html", "text": "<p>Three</p>"},
    ]
    lines = "\n".join(json.dumps(document) for document in documents)
    async with Running() as service:
        assert (await send(service, {"documents": documents}, "application/json"))[0] == 202
        assert (await send(service, lines, "application/x-ndjson; charset=utf-8"))[0] == 202
        first, second = (uploads for _, _, uploads in service.stages.catalog.kept)
    assert first == second
    assert [upload.media_type for upload in first] == ["text/markdown", "text/plain", "text/html"]
    assert first[0].metadata == {"year": 1, "title": "A"}
    assert first[0].content == b"# A\n\nOne."
    assert first[1].name.startswith("text-")


async def test_a_text_without_a_name_is_named_by_its_content() -> None:
    async with Running() as service:
        for text in ("one", "one", "two"):
            await send(service, {"documents": [{"text": text}]}, "application/json")
        names = [uploads[0].name for _, _, uploads in service.stages.catalog.kept]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    ("content", "kind", "status", "says"),
    [
        ({"documents": []}, "application/json", 400, "documents"),
        ({"documents": [{"name": "a"}]}, "application/json", 400, "documents[0].text"),
        ({"documents": [{"text": "a", "txt": "b"}]}, "application/json", 400, "documents[0].txt"),
        ('{"text": "a"}\n{"text": 1}', "application/x-ndjson", 400, "documents[1].text"),
        ('{"text": "a"}\nnonsense', "application/x-ndjson", 400, "documents[1]"),
        ("", "application/x-ndjson", 400, "documents"),
        ("\n".join(['{"text": "a"}'] * 4), "application/x-ndjson", 413, "At most 3 documents"),
        ({"documents": [{"text": "a" * 1500}]}, "application/json", 413, "1000 bytes"),
        ('{"text": "' + "a" * 1500 + '"}', "application/x-ndjson", 413, "1000 bytes"),
        ({"documents": [{"text": "a" * 5000}]}, "application/json", 413, "4000"),
        (b"%PDF", "application/pdf", 400, "multipart/form-data"),
        (b"--x", "multipart/form-data", 400, "boundary"),
        (PART + b"abc", "multipart/form-data; boundary=x", 400, "ends"),
        (b"nonsense", "multipart/form-data; boundary=x", 400, "cannot be read"),
    ],
)
async def test_an_upload_that_cannot_be_taken_says_why(content: object, kind: str, status: int, says: str) -> None:
    async with Running(SMALL) as service:
        found, body = await send(service, content, kind)
        assert service.stages.catalog.kept == []
    assert found == status
    assert says in json.dumps(body)


async def test_a_file_over_its_limit_is_refused_by_name_while_it_comes() -> None:
    form = aiohttp.FormData()
    form.add_field("file", b"a" * 1500, filename="big.txt")
    async with Running(SMALL) as service, service.client.post(service.url + DOCUMENTS, data=form) as response:
        error = (await response.json())["error"]
    assert response.status == 413
    assert "'big.txt'" in error["message"]
    assert "1000 bytes" in error["message"]


async def test_a_body_without_a_length_is_refused_at_its_limit() -> None:
    async def endless() -> object:
        while True:
            yield b'{"text": "a"}\n' * 100

    async with (
        Running(SMALL) as service,
        service.client.post(
            service.url + DOCUMENTS, data=endless(), headers={"Content-Type": "application/x-ndjson"}
        ) as response,
    ):
        assert response.status == 413


async def test_a_job_is_followed_until_it_is_final() -> None:
    async with Running() as service:
        _, job = await send(service, {"documents": [{"text": "a"}, {"text": "b"}]}, "application/json")
        catalog, notices = service.stages.catalog, service.stages.notices
        async with service.client.get(f"{service.url}/v1/jobs/{job['id']}/events") as response:
            assert response.headers["X-Accel-Buffering"] == "no"
            await notices.watched.wait()
            first = [await response.content.readline() for _ in range(3)]
            catalog.moves("job0", JobState.RUNNING, parsed=1, accepted=1)
            notices.moved.put_nowait(None)
            second = [await response.content.readline() for _ in range(3)]
            catalog.moves("job0", JobState.DONE, published=2)
            notices.moved.put_nowait(None)
            async with asyncio.timeout(10):
                told = await events(response)
    assert first[0] == second[0] == b"event: progress\n"
    assert json.loads(second[1].removeprefix(b"data: "))["counts"] == {"parsed": 1, "accepted": 1}
    assert [name for name, _ in told] == ["done"]
    assert json.loads(told[0][1])["state"] == "done"


async def test_a_job_is_followed_without_notices_too() -> None:
    async with Running() as service:
        await send(service, {"documents": [{"text": "a"}]}, "application/json")
        async with service.client.get(f"{service.url}/v1/jobs/job0/events") as response:
            await service.stages.notices.watched.wait()
            service.stages.catalog.moves("job0", JobState.CANCELLED, cancelled=1)
            async with asyncio.timeout(10):
                told = await events(response)
    assert told[-1][0] == "done"


async def test_jobs_are_listed_shown_paged_and_cancelled() -> None:
    async with Running() as service:
        await send(service, {"documents": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}, "application/json")

        async def get(path: str) -> dict[str, object]:
            async with service.client.get(service.url + path) as response:
                return await response.json()

        assert len((await get("/v1/jobs"))["data"]) == 1  # type: ignore[arg-type]
        assert (await get("/v1/jobs?collection=laws"))["data"] == []
        assert (await get("/v1/jobs/job0"))["total"] == 3
        page = await get("/v1/jobs/job0/items?limit=2")
        assert ([item["name"] for item in page["data"]], page["next"]) == (["0.md", "1.md"], 2)  # type: ignore[attr-defined]
        last = await get("/v1/jobs/job0/items?limit=1&after=2")
        assert (len(last["data"]), last["next"]) == (1, None)  # type: ignore[arg-type]
        async with service.client.post(f"{service.url}/v1/jobs/job0/cancel") as response:
            assert (await response.json())["state"] == "cancelled"
        assert "job0" in (await get("/v1/jobs/nothing"))["error"]["message"]  # type: ignore[index]


async def test_a_collection_is_made_anew_by_a_job() -> None:
    async with Running() as service:
        async with service.client.post(f"{service.url}/v1/collections/handbook/refresh") as response:
            told = await response.json()
            assert (response.status, told["kind"], told["total"]) == (202, "refresh", 3)
            assert response.headers["Location"] == f"/v1/jobs/{told['id']}"
        assert service.stages.nudge.times == 1
        async with service.client.post(f"{service.url}/v1/collections/handbok/refresh") as response:
            assert response.status == 404


async def test_holdings_are_listed_paged_and_removed() -> None:
    async with Running() as service:
        url, client = service.url, service.client
        async with client.get(f"{url}/v1/collections") as response:
            assert [each["name"] for each in (await response.json())["data"]] == ["handbook", "laws"]
        async with client.get(f"{url}/v1/collections/laws") as response:
            assert (await response.json())["generation"] == 7
        async with client.get(f"{url}{DOCUMENTS}?limit=2") as response:
            page = await response.json()
            assert ([each["id"] for each in page["data"]], page["next"]) == (["d0", "d1"], "d1")
        async with client.get(f"{url}{DOCUMENTS}?limit=1&after=d1") as response:
            page = await response.json()
            assert ([each["id"] for each in page["data"]], page["next"]) == (["d2"], None)
        async with client.get(f"{url}{DOCUMENTS}/d2") as response:
            assert (await response.json())["tokens"] == 40
        async with client.delete(f"{url}{DOCUMENTS}/d2") as response:
            assert (response.status, (await response.json())["kind"]) == (202, "remove")
        async with client.delete(f"{url}{DOCUMENTS}?id=d0&id=d1") as response:
            assert response.headers["Location"] == "/v1/jobs/job1"
        async with client.delete(f"{url}/v1/collections/laws") as response:
            assert await response.json() == {"name": "laws", "deleted": True}
        async with client.get(f"{url}/v1/collections/laws") as response:
            assert response.status == 404
        assert service.stages.catalog.removed == [("d2",), ("d0", "d1")]
        assert service.stages.looked_again == [("default", "laws")], "it is gone from search before it is said to be"
        assert service.stages.nudge.times == 3
