"""`fleetfoot ingest` and `fleetfoot jobs` over a real door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from api.assembly import DoorOptions
from api.limits import Limits
from fleetfoot.client import Json
from fleetfoot.finding import FILES_A_REQUEST
from fleetfoot.ingesting import ingest
from pipeline.errors import UpstreamFailed
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
    """A client whose streams break off twice before they come to an end."""

    def __init__(self) -> None:
        self.streams = 0

    async def upload(self, collection: str, files: object) -> Json:
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
    return {"id": "j1", "state": state, "total": 1, "counts": counts, "failed": [], "generation": None}
