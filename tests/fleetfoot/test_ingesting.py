"""`fleetfoot ingest` and `fleetfoot jobs` over a real door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from api.assembly import DoorOptions
from api.limits import Limits
from api.terms import TermsOptions
from fleetfoot.client import Json
from fleetfoot.finding import FILES_A_REQUEST
from fleetfoot.ingesting import ingest
from pipeline.errors import Misconfigured, Overloaded, UpstreamFailed
from pipeline.jobs import ItemState, Job, JobItem, JobState, PassageCounts
from tests.fakes_api import Service
from tests.fleetfoot.conftest import QuickCatalog, fleetfoot, served
from tests.running_service import ROOT, clean_environment


def notes(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text(f"This is {name}.")
    return folder


def test_what_became_searchable_is_counted(service: Service, tmp_path: Path) -> None:
    done = fleetfoot("ingest", "-c", "notes", notes(tmp_path, "a.md", "b.md"), url=service.url)
    assert done.exit_code == 0, done.stderr
    assert "2 documents: 2 published" in done.stdout
    ((_, collection, uploads),) = service.stages.catalog.kept
    assert collection == "notes"
    assert [(each.name, each.content) for each in uploads] == [("a.md", b"This is a.md."), ("b.md", b"This is b.md.")]


def test_a_document_that_fails_is_named_with_its_reason_and_the_status_is_3(service: Service, tmp_path: Path) -> None:
    done = fleetfoot("ingest", notes(tmp_path, "a.md", "bad [old].md"), url=service.url)
    assert done.exit_code == 3
    assert "2 documents: 1 failed, 1 published" in done.stdout
    assert "failed bad [old].md: 'bad [old].md' has no text [sic]." in done.stdout


def test_many_files_go_in_several_requests_and_are_summed_up(service: Service, tmp_path: Path) -> None:
    total = FILES_A_REQUEST * 3 + 5
    done = fleetfoot("ingest", "--json", notes(tmp_path, *(f"{n:04}.md" for n in range(total))), url=service.url)
    told = json.loads(done.stdout)
    assert done.exit_code == 0, done.stderr
    assert len(told["jobs"]) == 4
    assert told["counts"] == {"published": total}
    assert told["generation"] == 4
    sent = [each.name for _, _, uploads in service.stages.catalog.kept for each in uploads]
    assert sent == [f"{n:04}.md" for n in range(total)]


@pytest.mark.parametrize("size", [5_000, 20_000_000], ids=["small", "refused while it is sent"])
def test_a_file_over_the_services_limit_fails_alone(tmp_path: Path, size: int) -> None:
    notes(tmp_path, *(f"{n}.md" for n in range(9)))
    (tmp_path / "4.md").write_bytes(b"a" * size)
    with served(DoorOptions(Limits(file=1000, upload=10_000_000))) as service:
        done = fleetfoot("ingest", "--json", tmp_path, url=service.url)
    told = json.loads(done.stdout)
    assert done.exit_code == 3
    assert told["counts"] == {"failed": 1, "published": 8}
    ((name, reason),) = [(each["name"], each["reason"]) for each in told["failed"]]
    assert name == "4.md"
    assert "1000" in reason or "10000000" in reason, reason


def test_a_collections_name_may_be_any_words(service: Service, tmp_path: Path) -> None:
    done = fleetfoot("ingest", "-c", "our notes?x=y#z", notes(tmp_path, "a.md"), url=service.url)
    assert done.exit_code == 0, done.stderr
    assert [collection for _, collection, _ in service.stages.catalog.kept] == ["our notes?x=y#z"]


def test_without_waiting_it_ends_when_everything_is_accepted(tmp_path: Path) -> None:
    with served(catalog=QuickCatalog(held=True)) as service:
        done = fleetfoot("ingest", "--no-wait", "--json", notes(tmp_path, "a.md"), url=service.url)
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout) == {
            "jobs": ["job0"],
            "counts": {"accepted": 1},
            "failed": [],
            "generation": None,
        }


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["bar", "json"])
def test_ctrl_c_says_what_goes_on_without_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    with served(catalog=QuickCatalog(held=True)) as service:
        process = subprocess.Popen(
            [sys.executable, "-m", "fleetfoot", "ingest", *options, str(notes(tmp_path, "a.md")), "--url", service.url],
            cwd=ROOT,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for _ in range(600):
            if service.stages.notices.watched.is_set():
                break
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        said, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "1 of 1 files were accepted and will be done; see `fleetfoot jobs` (job0)." in told
    assert "Traceback" not in told
    assert not options or said == ""


class Faltering:
    """A client whose first answers to an upload are lost, and whose streams break off twice before they end."""

    def __init__(self, lost: int = 0) -> None:
        self.streams = 0
        self.lost = lost
        self.keys: list[str | None] = []

    async def post(self, path: str, body: Json) -> Json:
        assert path == "/v1/collections/notes/documents/known"
        return {"data": []}

    async def upload(self, collection: str, files: object, *, key: str | None, **sent: object) -> Json:
        self.keys.append(key)
        if len(self.keys) <= self.lost:
            raise UpstreamFailed("The connection broke off.")
        return _job("running", accepted=1)

    async def events(self, method: str, path: str) -> AsyncGenerator[tuple[str, str], None]:
        self.streams += 1
        yield "progress", json.dumps(_job("running", parsed=1))
        if self.streams == 1:
            raise UpstreamFailed("The connection broke off.")
        if self.streams == 2:
            return
        yield "done", json.dumps(_job("done", published=1))


async def test_a_service_that_starts_again_is_followed_again(tmp_path: Path) -> None:
    client: Any = Faltering()
    ingested = await ingest(client, "notes", [notes(tmp_path, "a.md")], Console(quiet=True), wait=True, rest=0.0)
    assert client.streams == 3
    assert ingested.counts == {"published": 1}


async def test_a_request_whose_answer_was_lost_is_sent_again_under_its_key(tmp_path: Path) -> None:
    client: Any = Faltering(lost=2)
    ingested = await ingest(client, "notes", [notes(tmp_path, "a.md")], Console(quiet=True), wait=True, rest=0.0)
    assert len(client.keys) == 3
    assert len(set(client.keys)) == 1
    assert client.keys[0]
    assert ingested.jobs == ("j1",)


async def test_a_service_that_was_never_reached_is_not_waited_for(tmp_path: Path) -> None:
    class Nowhere(Faltering):
        async def post(self, path: str, body: Json) -> Json:
            raise Misconfigured("Nothing answers.")

    client: Any = Nowhere()
    with pytest.raises(Misconfigured):
        await ingest(client, "notes", [notes(tmp_path, "a.md")], Console(quiet=True), wait=True, rest=0.0)
    assert client.keys == []


def test_a_service_that_is_full_is_asked_again_when_it_says(tmp_path: Path) -> None:
    class Full(QuickCatalog):
        refusals = 2

        def accept(self, *given: Any, **terms: Any) -> Job:
            if self.refusals:
                self.refusals -= 1
                raise Overloaded("The service is full.", retry_after=0.01)
            return super().accept(*given, **terms)

    with served(catalog=Full()) as full:
        done = fleetfoot("ingest", "--json", notes(tmp_path, "a.md"), url=full.url)
    assert json.loads(done.stdout)["counts"] == {"published": 1}, done.stderr


def test_what_is_there_is_not_sent_again_and_an_interrupted_ingest_goes_on(service: Service, tmp_path: Path) -> None:
    fleetfoot("ingest", "-c", "notes", notes(tmp_path, "a.md", "b.md", "bad.md"), url=service.url)
    notes(tmp_path, "c.md", "d.md")
    (tmp_path / "b.md").write_text("Changed.")
    done = fleetfoot("ingest", "--json", "-c", "notes", tmp_path, url=service.url)
    assert done.exit_code == 3
    assert json.loads(done.stdout)["counts"] == {"unchanged": 1, "published": 3, "failed": 1}
    sent = [sorted(each.name for each in uploads) for _, _, uploads in service.stages.catalog.kept]
    assert sent == [["a.md", "b.md", "bad.md"], ["b.md", "bad.md", "c.md", "d.md"]]
    again = fleetfoot("ingest", "--again", "-c", "notes", tmp_path / "a.md", url=service.url)
    assert "1 documents: 1 published" in again.stdout
    assert len(service.stages.catalog.kept) == 3


def test_what_is_on_its_way_since_before_is_waited_for_and_told_by_document(tmp_path: Path) -> None:
    notes(tmp_path, "a.md", "bad.md", "other.md")
    catalog = QuickCatalog(held=True)
    with served(catalog=catalog) as service:
        fleetfoot("ingest", "--no-wait", "-c", "notes", tmp_path, url=service.url)
        (tmp_path / "other.md").unlink()
        job = catalog.known["job0"]
        bad = JobItem("bad.md", "d2", ItemState.FAILED, "'bad.md' has no text.", 2)
        other = JobItem("other.md", "d3", ItemState.FAILED, "", 3)

        def end() -> None:
            counts = {ItemState.PUBLISHED: 1, ItemState.FAILED: 2}
            catalog.ended["job0"] = [JobItem("a.md", "d1", ItemState.PUBLISHED, "", 1), bad, other]
            catalog.known["job0"] = replace(job, state=JobState.DONE, counts=counts)

        catalog.when_followed = end
        done = fleetfoot("ingest", "--json", "-c", "notes", tmp_path, url=service.url)
    told = json.loads(done.stdout)
    assert done.exit_code == 3, done.stderr
    assert told["counts"] == {"published": 1, "failed": 1}, "of the three in that job two are ours"
    assert (told["jobs"], [each["name"] for each in told["failed"]]) == (["job0"], ["bad.md"])
    assert len(catalog.kept) == 1


def test_a_program_reads_a_line_for_each_step(service: Service, tmp_path: Path) -> None:
    names = [f"{number:04}.md" for number in range(FILES_A_REQUEST + 1)]
    done = fleetfoot("ingest", "--lines", "-c", "notes", notes(tmp_path, *names, "bad.md"), url=service.url)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 3
    accepted = [each for each in told if each["event"] == "accepted"]
    assert [each["documents"] for each in accepted] == [FILES_A_REQUEST, 2]
    assert [(each["name"]) for each in told if each["event"] == "failed"] == ["bad.md"]
    assert (told[-1]["event"], told[-1]["counts"]) == ("done", {"published": FILES_A_REQUEST + 1, "failed": 1})
    progress = [each for each in told if each["event"] == "progress"]
    assert progress
    assert progress[0].keys() >= {"total", "sent", "done", "counts", "rate", "time_left_ms"}


def test_a_webhook_is_asked_for_with_every_request(tmp_path: Path) -> None:
    hook = "https://example.com/hook?a=b&c=d"
    with served(DoorOptions(terms=TermsOptions(signed=True))) as service:
        done = fleetfoot("ingest", "--webhook", hook, notes(tmp_path, "a.md"), url=service.url)
        assert done.exit_code == 0, done.stderr
        assert [terms.webhook for terms in service.stages.catalog.terms] == [hook]


def test_a_dry_run_shows_what_would_come_of_the_files_and_sends_nothing(service: Service, tmp_path: Path) -> None:
    notes(tmp_path, "a.md", "bad [1].md")
    (tmp_path / "copy.md").write_text("This is a.md.")
    (tmp_path / "long.md").write_text("\n\n".join(f"Paragraph {number}." for number in range(30)))
    shown = fleetfoot("ingest", "--dry-run", tmp_path, url=service.url)
    assert shown.exit_code == 3
    assert "cannot be read: 'bad [1].md' has no text." in shown.stdout
    assert "the same bytes as 'a.md' in this upload" in shown.stdout
    assert "[0] 3 tokens the same as [0] of a.md (upload)" in shown.stdout
    assert "… and 10 more passages: --full shows them" in shown.stdout
    assert "4 documents, 32 passages" in shown.stdout
    full = fleetfoot("ingest", "--dry-run", "--full", "--json", tmp_path / "long.md", url=service.url)
    assert full.exit_code == 0, full.stderr
    (document,) = json.loads(full.stdout)["documents"]
    assert len(document["chunks"]) == 30
    assert service.stages.catalog.kept == []


def test_a_dry_run_tells_of_a_file_over_the_limit_and_of_all_others(tmp_path: Path) -> None:
    notes(tmp_path, *(f"{number}.md" for number in range(4)))
    (tmp_path / "2.md").write_bytes(b"a" * 5000)
    with served(DoorOptions(Limits(file=1000))) as service:
        done = fleetfoot("ingest", "--dry-run", "--json", tmp_path, url=service.url)
    told = {each["name"]: each["error"] for each in json.loads(done.stdout)["documents"]}
    assert done.exit_code == 3
    assert [name for name, error in told.items() if error] == ["2.md"]
    assert "1000" in told["2.md"]["message"]


def test_what_failed_is_retried_listed_and_cancelled_by_the_job(service: Service, tmp_path: Path) -> None:
    fleetfoot("ingest", notes(tmp_path, "a.md", "bad.md"), url=service.url)
    catalog = service.stages.catalog
    catalog.known["job0"] = replace(catalog.known["job0"], retryable=1, passages=PassageCounts(3, 3, 3))
    shown = fleetfoot("jobs", "job0", url=service.url)
    assert "3 passages, 3 encoded, 3 searchable" in shown.stdout
    assert "1 can be tried again without being sent again: `fleetfoot jobs job0 --retry`" in shown.stdout
    listed = fleetfoot("jobs", "job0", "--failed", url=service.url)
    assert listed.stdout.splitlines() == ["name,document_id,reason", "bad.md,bad.md,'bad.md' has no text [sic]."]
    catalog.when_begun = lambda job: replace(job, state=JobState.DONE, counts={ItemState.PUBLISHED: 1})
    retried = fleetfoot("jobs", "job0", "--retry", url=service.url)
    assert retried.exit_code == 0, retried.stderr
    assert "1 documents: 1 published" in retried.stdout
    assert "cancelled" in fleetfoot("jobs", "job1", "--cancel", url=service.url).stdout
    assert fleetfoot("jobs", "--retry", url=service.url).exit_code == 2


def test_jobs_are_listed_with_how_far_they_are(service: Service, tmp_path: Path) -> None:
    empty = fleetfoot("jobs", url=service.url)
    assert "Nothing was sent yet" in empty.stdout
    fleetfoot("ingest", "-c", "notes", notes(tmp_path, "a.md", "bad.md"), url=service.url)
    listed = fleetfoot("jobs", url=service.url)
    assert listed.exit_code == 0, listed.stderr
    (row,) = [line.split() for line in listed.stdout.splitlines() if "job0" in line]
    assert [row[0], row[1], *row[4:]] == ["job0", "notes", "done", "2/2", "1"]
    assert json.loads(fleetfoot("jobs", "--json", url=service.url).stdout)["data"][0]["id"] == "job0"
    assert json.loads(fleetfoot("jobs", "-c", "laws", "--json", url=service.url).stdout) == {"data": []}


def test_one_job_tells_the_reasons_of_what_failed(service: Service, tmp_path: Path) -> None:
    fleetfoot("ingest", notes(tmp_path, "a.md", "bad.md"), url=service.url)
    told = fleetfoot("jobs", "job0", url=service.url)
    assert "done, 2 of 2 documents done: 1 failed, 1 published" in told.stdout
    assert "failed bad.md: 'bad.md' has no text [sic]." in told.stdout
    unknown = fleetfoot("jobs", "job9", url=service.url)
    assert unknown.exit_code == 1
    assert "There is no job 'job9'." in unknown.stderr


def _job(state: str, **counts: int) -> Json:
    told = {"id": "j1", "state": state, "total": 1, "counts": counts, "failed": [], "generation": None}
    return {**told, "rate": {"documents": 1.0, "passages": 2.0}, "time_left_ms": 1000.0}
