"""Jobs over HTTP: made once, retried, told of as CSV and by webhook, and what need not be sent."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from api.assembly import DoorOptions
from api.failed_csv import PAGE
from api.terms import TermsOptions
from pipeline.errors import Conflict, NoLongerKept, Unavailable
from pipeline.jobs import (
    ItemState,
    Job,
    JobItem,
    JobState,
    PassageCounts,
    Rate,
    Terms,
    Webhook,
    WebhookState,
)
from tests.fakes_api import FakeCatalog, Running, Service

DOCUMENTS = "/v1/collections/handbook/documents"
TEXT = {"documents": [{"name": "a.md", "text": "One."}]}
SIGNED = DoorOptions(terms=TermsOptions(signed=True))


async def asked(service: Service, method: str, path: str, **options: Any) -> tuple[int, Any]:
    async with service.client.request(method, service.url + path, **options) as response:
        return response.status, await response.json()


def failing(*failed: JobItem, catalog: FakeCatalog | None = None) -> FakeCatalog:
    """A catalog with a finished job, `job0`, in which these documents failed."""
    made = catalog or FakeCatalog()
    made.accept("default", "handbook", [])
    made.known["job0"] = replace(made.known["job0"], state=JobState.DONE, total=len(failed), failed=failed)
    return made


@pytest.mark.parametrize(("sent", "kept"), [("k-1", "k-1"), ('"k-1"', "k-1"), ('"', '"')])
async def test_an_idempotency_key_goes_with_the_request_quoted_or_not(sent: str, kept: str) -> None:
    async with Running() as service:
        for method, path in (
            ("POST", DOCUMENTS),
            ("DELETE", f"{DOCUMENTS}/d0"),
            ("DELETE", f"{DOCUMENTS}?id=d0"),
            ("POST", "/v1/collections/handbook/refresh"),
        ):
            body = {"json": TEXT} if path == DOCUMENTS and method == "POST" else {}
            status, _ = await asked(service, method, path, headers={"Idempotency-Key": sent}, **body)
            assert status == 202, path
        assert service.stages.catalog.terms == [Terms(key=kept)] * 4


async def test_a_key_of_another_request_is_a_conflict_that_nobody_retries() -> None:
    class Taken(FakeCatalog):
        def accept(self, *_: Any, **__: Any) -> Job:
            raise Conflict("The Idempotency-Key 'k' has come before, with another request: it made the job j.")

    async with (
        Running(catalog=Taken()) as service,
        service.client.post(service.url + DOCUMENTS, json=TEXT, headers={"Idempotency-Key": "k"}) as response,
    ):
        assert (response.status, (await response.json())["error"]["code"]) == (409, "conflict")
        assert response.headers["X-Should-Retry"] == "false"


async def test_a_webhook_goes_with_the_request_and_the_default_with_all_others() -> None:
    usual = DoorOptions(terms=TermsOptions("https://example.com/usual", signed=True))
    async with Running(usual) as service:
        await asked(service, "POST", f"{DOCUMENTS}?webhook=https%3A%2F%2Fexample.com%2Fhook%3Fx%3D1", json=TEXT)
        await asked(service, "POST", DOCUMENTS, json=TEXT)
        told = [terms.webhook for terms in service.stages.catalog.terms]
    assert told == ["https://example.com/hook?x=1", "https://example.com/usual"]


@pytest.mark.parametrize(
    ("options", "url", "says"),
    [
        (DoorOptions(), "https://example.com/hook", "FLEETFOOT_WEBHOOK_SECRET"),
        (SIGNED, "http://127.0.0.1/hook", "private or local"),
        (SIGNED, "nonsense", "https://example.com/hook"),
    ],
    ids=["unsigned", "private", "no address"],
)
async def test_a_webhook_that_could_not_be_told_is_refused_before_anything_is_kept(
    options: DoorOptions, url: str, says: str
) -> None:
    async with Running(options) as service:
        status, body = await asked(service, "POST", f"{DOCUMENTS}?webhook={url}", json=TEXT)
        assert service.stages.catalog.kept == []
    assert (status, body["error"]["param"]) == (400, "webhook")
    assert says in body["error"]["message"]


async def test_a_job_tells_how_far_it_is_how_quickly_it_goes_and_what_is_left() -> None:
    async with Running() as service:
        await asked(service, "POST", DOCUMENTS, json=TEXT)
        known = service.stages.catalog.known
        counts = {ItemState.ACCEPTED: 5, ItemState.PARSED: 4, ItemState.ENCODED: 3, ItemState.PUBLISHED: 2}
        known["job0"] = replace(
            known["job0"],
            state=JobState.RUNNING,
            total=14,
            counts=counts,
            passages=PassageCounts(90, 50, 20),
            rate=Rate(1.5, 30.0),
            time_left=12.25,
            webhook=Webhook("https://example.com/hook", WebhookState.WAITING),
        )
        _, told = await asked(service, "GET", "/v1/jobs/job0")
    assert told["documents"] == {"parsed": 9, "chunked": 9, "encoded": 5, "published": 2}
    assert told["passages"] == {"chunked": 90, "encoded": 50, "published": 20}
    assert (told["rate"], told["time_left_ms"]) == ({"documents": 1.5, "passages": 30.0}, 12250.0)
    assert told["webhook"] == {
        "url": "https://example.com/hook",
        "state": "waiting",
        "attempts": 0,
        "due": None,
        "reason": "",
    }


async def test_failures_come_as_csv_that_a_spreadsheet_opens_and_runs_nothing_of() -> None:
    names = ["plain.md", '=HYPERLINK("http://x")', "+1", "-1", "@x", "a,b", 'quo"te', "zwei\nZeilen", "größe.md", "\tx"]
    failed = [
        JobItem(name, f"d{place}", ItemState.FAILED, f"'{name}' is broken.", ordinal=place)
        for place, name in enumerate(names, start=1)
    ]
    async with (
        Running(catalog=failing(*failed)) as service,
        service.client.get(f"{service.url}/v1/jobs/job0/failed.csv") as response,
    ):
        body = await response.read()
        assert response.headers["Content-Type"].startswith("text/csv; charset=utf-8")
        assert response.headers["Content-Disposition"] == 'attachment; filename="failed-job0.csv"'
    head, *rows = csv.reader(io.StringIO(body.decode(), newline=""), strict=True)
    assert head == ["name", "document_id", "reason"]
    assert [row[0].removeprefix("'") for row in rows] == names
    assert not [cell for row in rows for cell in row if cell[0] in "=+-@\t\r\n"]
    assert body.count(b"\r\n") == len(names) + 1


async def test_many_failures_are_read_a_page_at_a_time_and_all_of_them_come() -> None:
    failed = [JobItem(f"{n}.md", f"d{n}", ItemState.FAILED, "no", ordinal=n) for n in range(1, 2 * PAGE + 11)]
    async with (
        Running(catalog=failing(*failed)) as service,
        service.client.get(f"{service.url}/v1/jobs/job0/failed.csv") as response,
    ):
        lines = (await response.text()).splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [item.name for item in failed]


async def test_half_a_csv_is_not_taken_for_all_of_it() -> None:
    class Fading(FakeCatalog):
        def items(self, *given: Any, after: int = 0, **options: Any) -> Any:
            if after:
                raise Unavailable("gone")
            return super().items(*given, after=after, **options)

    failed = [JobItem(f"{n}.md", f"d{n}", ItemState.FAILED, "no", ordinal=n) for n in range(1, PAGE + 2)]
    async with (
        Running(catalog=failing(*failed, catalog=Fading())) as service,
        service.client.get(f"{service.url}/v1/jobs/job0/failed.csv") as response,
    ):
        with pytest.raises(Exception, match=r"(?i)payload|disconnected|closed"):
            await response.read()


async def test_the_csv_of_an_unknown_job_is_no_file() -> None:
    async with Running() as service:
        status, body = await asked(service, "GET", "/v1/jobs/nothing/failed.csv")
    assert (status, body["error"]["code"]) == (404, "not_found")


async def test_documents_of_a_job_are_named_to_those_who_may_see_them() -> None:
    secret = JobItem("secret.md", "d1", ItemState.FAILED, "no", ordinal=1, access=("hr",))
    plain = JobItem("plain.md", "d2", ItemState.FAILED, "no", ordinal=2, warnings=("Page 3 is an image.",), passages=4)
    async with Running(catalog=failing(secret, plain)) as service:
        _, job = await asked(service, "GET", "/v1/jobs/job0")
        _, page = await asked(service, "GET", "/v1/jobs/job0/items?state=failed")
        async with service.client.get(f"{service.url}/v1/jobs/job0/failed.csv") as response:
            told = await response.text()
    assert [item["name"] for item in job["failed"]] == ["plain.md"]
    assert [(item["name"], item["passages"], item["warnings"]) for item in page["data"]] == [
        ("plain.md", 4, ["Page 3 is an image."])
    ]
    assert "secret" not in told


async def test_what_failed_is_retried_by_a_job_of_its_own() -> None:
    async with Running(catalog=failing(JobItem("a", "d", ItemState.FAILED, "no", 1))) as service:
        async with service.client.post(f"{service.url}/v1/jobs/job0/retry") as response:
            body = await response.json()
            assert (response.status, body["total"]) == (202, 1)
            assert response.headers["Location"] == f"/v1/jobs/{body['id']}"
        assert service.stages.nudge.times == 1


async def test_what_is_not_kept_any_more_is_gone_with_the_remedy() -> None:
    class Forgetful(FakeCatalog):
        def retry(self, *_: Any, **__: Any) -> Job:
            raise NoLongerKept("The bytes are not kept any more. Send those documents again.")

    async with Running(catalog=Forgetful()) as service:
        status, body = await asked(service, "POST", "/v1/jobs/job0/retry")
    assert (status, body["error"]["code"]) == (410, "no_longer_kept")
    assert "again" in body["error"]["message"]


async def test_what_is_there_just_so_need_not_be_sent() -> None:
    async with Running() as service:
        await asked(service, "POST", DOCUMENTS, json=TEXT)
        offers = [{"name": name, "content_hash": sha256(b"One.").hexdigest()} for name in ("a.md", "b.md")]
        path = f"{DOCUMENTS}/known"
        assert await asked(service, "POST", path, json={"documents": offers}) == (
            200,
            {"data": [{"name": "a.md", "job": "job0"}]},
        )
        _, otherwise = await asked(service, "POST", path, json={"documents": offers, "metadata": {"year": 1}})
        assert otherwise == {"data": []}
        for wrong in ({"documents": []}, {"documents": [{"name": "a", "content_hash": "ABC"}]}, {}):
            status, body = await asked(service, "POST", path, json=wrong)
            assert (status, body["error"]["param"].split("[")[0]) == (400, "documents")
