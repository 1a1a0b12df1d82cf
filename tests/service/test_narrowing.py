"""Filters and access labels in the whole service: what was sent with a document decides who finds it by what."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from api.callers import NewKey, new_key
from tests.running_service import MARKS, Api, Site, answered, command, finished, retrieved, sources

pytestmark = MARKS

TEXTS = {
    "leave-2024.md": ("Everybody has 26 days of leave.", {"year": 2024, "tags": ["hr"], "due": "2024-12-31"}),
    "leave-2025.md": ("Everybody has 28 days of leave.", {"year": 2025, "tags": ["hr", "new"], "due": "2025-12-31"}),
    "trams.md": ("Tram drivers have 30 days of leave.", {"year": 2025, "tags": ["trams"], "final": True}),
    "plain.md": ("Days of leave are counted from Monday to Friday.", {}),
}


def document(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "text": text, **fields}


async def sent(client: aiohttp.ClientSession, collection: str, *documents: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/collections/{collection}/documents"
    return await finished(client, await answered(client, "POST", path, 202, json={"documents": documents}))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def collection(api: Api) -> str:
    """With all of the texts."""
    async with api.client() as client:
        documents = (document(name, text, metadata=said) for name, (text, said) in TEXTS.items())
        await sent(client, "narrowed", *documents)
    return "narrowed"


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"type": "eq", "key": "year", "value": 2025}, {"leave-2025.md", "trams.md"}),
        ({"type": "ne", "key": "year", "value": 2025}, {"leave-2024.md", "plain.md"}),
        ({"type": "in", "key": "tags", "value": ["new", "trams"]}, {"leave-2025.md", "trams.md"}),
        ({"type": "gt", "key": "due", "value": "2024-12-30T23:00:00-02:00"}, {"leave-2025.md"}),
        ({"type": "eq", "key": "final", "value": True}, {"trams.md"}),
        ({"type": "in", "key": "source", "value": ["plain.md", "trams.md"]}, {"plain.md", "trams.md"}),
        (
            {
                "type": "or",
                "filters": [
                    {"type": "lt", "key": "year", "value": 2025},
                    {
                        "type": "and",
                        "filters": [
                            {"type": "gte", "key": "year", "value": 2025},
                            {"type": "nin", "key": "tags", "value": ["hr"]},
                        ],
                    },
                ],
            },
            {"leave-2024.md", "trams.md"},
        ),
        ({"type": "gt", "key": "year", "value": 2030}, set()),
    ],
    ids=["eq", "ne", "in", "gt a date", "true", "source", "nested", "nothing"],
)
async def test_only_what_is_inside_the_filter_is_found_and_answered_from(
    client: aiohttp.ClientSession, collection: str, filters: dict[str, Any], names: set[str]
) -> None:
    for legs in (["lexical"], ["dense"], ["lexical", "dense"]):
        apart = {"search": {"legs": legs}, "pack": {"join_neighbours": False, "similarity": 2}}
        result = await retrieved(client, "days of leave", collection, filters=filters, top_k=10, **apart)
        assert set(sources(result)) == names
    asked = {
        "model": collection,
        "messages": [{"role": "user", "content": "How many days of leave are there?"}],
        "retrieval": {"filters": filters, "pack": {"similarity": 2}},
    }
    answer = await answered(client, "POST", "/v1/chat/completions", json=asked)
    assert {passage["source"] for passage in answer["fleetfoot"]["passages"]} == names


async def test_a_field_that_is_not_there_is_named_with_its_place(
    client: aiohttp.ClientSession, collection: str
) -> None:
    filters = {"type": "and", "filters": [{"type": "eq", "key": name, "value": 2025} for name in ("year", "yaer")]}
    asked = {"query": "leave", "collection": collection, "filters": filters}
    error = (await answered(client, "POST", "/v1/retrieve", 400, json=asked))["error"]
    assert (error["code"], error["param"]) == ("invalid_request", "filters.filters[1].key")
    assert "'yaer'" in error["message"]
    assert "year (numbers)" in error["message"]
    chat = {"model": collection, "messages": [{"role": "user", "content": "leave"}], "retrieval": {"filters": filters}}
    for stream in (False, True):
        error = (await answered(client, "POST", "/v1/chat/completions", 400, json=chat | {"stream": stream}))["error"]
        assert error["param"] == "retrieval.filters.filters[1].key"
    wrong = {"query": "leave", "collection": collection, "filters": {"type": "eq", "key": "year", "value": "2025"}}
    error = (await answered(client, "POST", "/v1/retrieve", 400, json=wrong))["error"]
    assert error["param"] == "filters.value"


async def test_what_a_filter_leaves_is_looked_up_once(client: aiohttp.ClientSession, collection: str, api: Api) -> None:
    filters = {"type": "eq", "key": "tags", "value": "hr"}
    laps = []
    for query in ("days of leave", "tram drivers"):
        result = await retrieved(client, query, collection, filters=filters)
        laps.append([lap["stage"] for lap in result["timings"]["laps"]].count("filter"))
    assert laps[1] == 0
    async with client.get("/metrics") as response:
        text = await response.text()
    assert 'fleetfoot_filter_masks_total{how="hit"}' in text


async def test_the_command_narrows_too(client: aiohttp.ClientSession, collection: str, api: Api) -> None:
    given = ("--url", api.url, "--json", "-c", collection, "days of leave")
    done = command("search", "--filter", "year>=2025", "-f", "tags=hr", *given)
    (result,) = json.loads(done.stdout)["results"]
    assert sources(result) == ["leave-2025.md"]
    done = command("ask", "--filter", '{"type": "eq", "key": "source", "value": "trams.md"}', *given)
    assert [passage["source"] for passage in json.loads(done.stdout)["passages"]] == ["trams.md"]
    done = command("search", "--filter", "yaer=2025", *given)
    assert done.returncode == 1
    assert "'yaer'" in done.stderr


@dataclass(frozen=True, slots=True)
class Labelled:
    """A door with keys of one tenant: its staff, its board, and two without labels, of which one may do everything."""

    api: Api
    hr: str
    board: str
    reader: str
    admin: str


@pytest.fixture(scope="module")
def labelled(site: Site, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Generator[Labelled, None, None]:
    hr, board, reader, admin = (new_key() for _ in range(4))
    file = tmp_path_factory.mktemp("labels") / "keys.toml"
    everything = '"read", "ingest", "admin"'
    file.write_text(
        entry(hr, '"read", "ingest"', '"hr"')
        + entry(board, '"read"', '"board", "hr2"')
        + entry(reader, '"read"', "")
        + entry(admin, everything, "")
    )
    with site.serving(KEYS_FILE=str(file)) as serving:
        yield Labelled(serving, hr.key, board.key, reader.key, admin.key)


def entry(key: NewKey, scopes: str, labels: str) -> str:
    return f'[[keys]]\nhash = "{key.hash}"\ntenant = "labelled"\nscopes = [{scopes}]\nlabels = [{labels}]\n'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pay(labelled: Labelled) -> dict[str, Any]:
    """Of each kind of access one document in the collection `pay`; the job that brought them."""
    async with labelled.api.client(labelled.hr) as client:
        return await sent(
            client,
            "pay",
            document("open.md", "Wages are paid on the last day of the month."),
            document("hr.md", "Guards earn wages of 2,100 crowns.", access=["hr"], metadata={"grade": 4}),
            document("both.md", "Drivers earn wages of 2,500 crowns.", access=["board", "hr"]),
            document("broken.md", "", access=["hr"]),
        )


async def test_a_key_finds_and_lists_what_its_labels_open(labelled: Labelled, pay: dict[str, Any]) -> None:
    sees = {
        labelled.hr: {"open.md", "hr.md", "both.md"},
        labelled.board: {"open.md", "both.md"},
        labelled.reader: {"open.md"},
        labelled.admin: {"open.md"},
    }
    for key, names in sees.items():
        async with labelled.api.client(key) as client:
            for legs in (["lexical"], ["dense"], ["lexical", "dense"]):
                options = {"search": {"legs": legs}, "top_k": 10}
                assert set(sources(await retrieved(client, "wages", "pay", **options))) == names
            listed = (await answered(client, "GET", "/v1/collections/pay/documents"))["data"]
            assert {each["name"] for each in listed} == names
            asked = {"model": "pay", "messages": [{"role": "user", "content": "What do guards earn?"}]}
            answer = await answered(client, "POST", "/v1/chat/completions", json=asked)
            assert ("2,100" in json.dumps(answer)) is ("hr.md" in names)


async def test_nothing_in_a_request_opens_what_the_key_does_not(labelled: Labelled, pay: dict[str, Any]) -> None:
    async with labelled.api.client(labelled.hr) as client:
        listed = (await answered(client, "GET", "/v1/collections/pay/documents"))["data"]
    ids = {each["name"]: each["id"] for each in listed}
    asked = {"query": "wages", "collection": "pay"}
    async with labelled.api.client(labelled.admin) as client:
        for more in ({"labels": ["hr"]}, {"access": ["hr"]}, {"caller": {"labels": ["hr"]}}, {"tenant": "labelled"}):
            await answered(client, "POST", "/v1/retrieve", 400, json=asked | more)
        for headers in ({"X-Labels": "hr"}, {"X-Access": "hr"}):
            result = await answered(client, "POST", "/v1/retrieve", json=asked, headers=headers)
            assert sources(result["results"][0]) == ["open.md"]
        for filters in (
            {"type": "eq", "key": "source", "value": "hr.md"},
            {"type": "eq", "key": "document_id", "value": ids["hr.md"]},
            {"type": "ne", "key": "source", "value": "open.md"},
        ):
            assert sources(await retrieved(client, "wages", "pay", filters=filters)) == []
        hidden = asked | {"filters": {"type": "eq", "key": "grade", "value": 4}}
        told = await answered(client, "POST", "/v1/retrieve", 400, json=hidden)
        assert "There is no field 'grade'" in told["error"]["message"], "as if the document were not there"
        for method in ("GET", "DELETE"):
            path = f"/v1/collections/pay/documents/{ids['hr.md']}"
            refused = await answered(client, method, path, 404)
            assert not any(
                ids[name] in refused["error"]["message"].partition("Known")[2] for name in ("hr.md", "both.md")
            )


async def test_jobs_are_counted_for_all_and_name_only_what_may_be_seen(labelled: Labelled, pay: dict[str, Any]) -> None:
    every = {"hr.md", "both.md", "open.md", "broken.md"}
    for key, names in ((labelled.hr, every), (labelled.board, {"both.md", "open.md"}), (labelled.admin, {"open.md"})):
        async with labelled.api.client(key) as client:
            items = (await answered(client, "GET", f"/v1/jobs/{pay['id']}/items"))["data"]
            assert {item["name"] for item in items} == names
            told = await answered(client, "GET", f"/v1/jobs/{pay['id']}")
            assert (told["total"], told["counts"]["failed"]) == (4, 1)
            assert [item["name"] for item in told["failed"]] == (["broken.md"] if key == labelled.hr else [])
            assert ("broken.md" in json.dumps(told)) is (key == labelled.hr)


async def test_files_come_with_labels_in_a_form(labelled: Labelled) -> None:
    async with labelled.api.client(labelled.hr) as client:
        form = aiohttp.FormData()
        form.add_field("access", '["hr"]')
        form.add_field("file", b"# Form\n\nThe form of wages.", filename="form.md")
        await finished(client, await answered(client, "POST", "/v1/collections/forms/documents", 202, data=form))
        assert sources(await retrieved(client, "form", "forms")) == ["form.md"]
    async with labelled.api.client(labelled.reader) as client:
        result = await retrieved(client, "form", "forms")
        assert result["passages"] == []


async def test_the_command_sends_files_under_labels(labelled: Labelled, tmp_path: Path) -> None:
    (tmp_path / "sent.md").write_text("# Sent\n\nWages that a command has sent.")
    given = ("ingest", "--json", "-c", "sent", "--url", labelled.api.url, str(tmp_path), "--access", "hr")
    for outcome in ("published", "published before"):
        done = command(*given, "--access", "board", env={"FLEETFOOT_KEY": labelled.hr})
        assert done.returncode == 0, (outcome, done.stderr)
    for key, names in ((labelled.hr, ["sent.md"]), (labelled.board, ["sent.md"]), (labelled.reader, [])):
        async with labelled.api.client(key) as client:
            assert sources(await retrieved(client, "wages", "sent")) == names
    async with labelled.api.client(labelled.hr) as client:
        assert len((await answered(client, "GET", "/v1/jobs?collection=sent"))["data"]) == 1, "it was sent once"


async def test_taking_a_label_away_opens_a_document_and_giving_one_closes_it(labelled: Labelled) -> None:
    async with labelled.api.client(labelled.hr) as hr, labelled.api.client(labelled.reader) as reader:
        for access, seen in ((["hr"], []), ([], ["note.md"]), (["hr"], [])):
            await sent(hr, "notes", document("note.md", "A note on wages.", access=access))
            assert sources(await retrieved(reader, "wages", "notes")) == seen
            assert sources(await retrieved(hr, "wages", "notes")) == ["note.md"]
