"""A dry run over HTTP: what documents would become, what is there twice, and nothing kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
from starlette.testclient import TestClient

from api.assembly import DoorOptions, create_app
from api.limits import Limits
from api.tried import CHUNKS_SHOWN, TEXT_SHOWN, Tried, told_of
from pipeline.chunking import Chunking, Cut
from pipeline.jobs import Place, Repeated
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Block, Document, Upload
from pipeline.previews import Echo, Preview
from tests.fakes_api import FakeStages, Running, Service
from tests.fakes_shelf import make_passage

DOCUMENTS = "/v1/collections/handbook/documents"


async def tried(service: Service, asked: str = "", **texts: str) -> tuple[int, Any]:
    documents = [{"name": name, "text": text} for name, text in texts.items()]
    async with service.client.post(f"{service.url}/v1/parse{asked}", json={"documents": documents}) as response:
        return response.status, await response.json()


async def test_each_document_is_told_as_it_would_be_and_nothing_is_kept() -> None:
    async with Running() as service:
        status, body = await tried(service, a="One.\n\nTwo, and more.", bad="x", b="Three.")
        assert (service.stages.catalog.kept, service.stages.nudge.times) == ([], 0)
    assert status == 200
    a, bad, b = body["documents"]
    assert (a["name"], a["bytes"], a["tokens"], a["chunks_total"]) == ("a", 20, 4, 2)
    assert a["text"] == "One.\n\nTwo, and more."
    assert [(chunk["ordinal"], chunk["text"], chunk["tokens"]) for chunk in a["chunks"]] == [
        (0, "One.", 1),
        (1, "Two, and more.", 3),
    ]
    assert (a["error"], a["document_id"], a["unchanged"]) == (None, None, None)
    assert bad["error"] == {"message": "'bad' has no text.", "code": "unparsable_document"}
    assert (bad["chunks"], b["error"]) == ([], None), "one that cannot be read harms no other"


async def test_files_and_lines_are_taken_as_in_an_upload() -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("files", "größe".encode(), filename="größe.txt", content_type="text/plain")
    async with Running() as service:
        async with service.client.post(f"{service.url}/v1/parse", data=form) as response:
            assert [each["name"] for each in (await response.json())["documents"]] == ["größe.txt"]
        lines = {"Content-Type": "application/x-ndjson"}
        async with service.client.post(f"{service.url}/v1/parse", data='{"text": "a"}', headers=lines) as response:
            assert (await response.json())["documents"][0]["text"] == "a"


async def test_a_long_document_shows_its_beginning_unless_all_is_asked_for() -> None:
    text = "\n\n".join(f"Paragraph {number} {'x' * 150}." for number in range(40))
    async with Running() as service:
        _, short = await tried(service, a=text)
        _, full = await tried(service, "?full=true", a=text)
    (short,), (full,) = short["documents"], full["documents"]
    assert (short["text"], short["characters"]) == (text[:TEXT_SHOWN], len(text))
    assert (len(short["chunks"]), short["chunks_total"]) == (CHUNKS_SHOWN, 40)
    assert (full["text"], len(full["chunks"])) == (text, 40)


async def test_a_way_to_cut_can_be_tried_and_the_collections_own_is_taken_else() -> None:
    async with Running() as service:
        service.stages.catalog.chosen["handbook"] = Chunking(Cut.WHOLE)
        await tried(service, "?collection=handbook", a="x")
        await tried(service, "?collection=handbook&chunker=tokens&tokens=64&overlap=8", a="x")
        await tried(service, "?collection=not-there-yet", a="x")
        assert service.stages.previewer.chosen == [Chunking(Cut.WHOLE), Chunking(Cut.TOKENS, 64, 8, 0), None]
        for asked, param in (
            ("?tokens=64", "tokens"),
            ("?chunker=magic", "chunker"),
            ("?chunker=tokens&overlap=900", "overlap"),
            ("?collection=a%20b", "collection"),
        ):
            status, body = await tried(service, asked, a="x")
            assert (status, body["error"]["param"]) == (400, param)


async def test_what_the_collection_has_already_is_told() -> None:
    async with Running() as service:
        documents = {"documents": [{"name": "there.txt", "text": "Known."}]}
        async with service.client.post(service.url + DOCUMENTS, json=documents):
            pass
        texts = {"there.txt": "Known.", "copy.txt": "Known.", "c": "New."}
        _, body = await tried(service, "?collection=handbook", **texts)
    there, copy, new = body["documents"]
    assert [each["unchanged"] for each in (there, copy, new)] == [True, False, False]
    assert copy["duplicates"][0] == {"where": "collection", "kind": "same", "name": "there.txt", "share": 1.0}
    assert new["duplicates"] == []
    assert all(each["document_id"] for each in body["documents"])


async def test_too_much_at_once_is_refused() -> None:
    small = DoorOptions(Limits(previews=2, preview=4000))
    async with Running(small) as service:
        status, body = await tried(service, a="x", b="y", c="z")
        assert (status, body["error"]["code"]) == (413, "too_large")
        status, body = await tried(service, a="x" * 5000)
        assert (status, "4000" in body["error"]["message"]) == (413, True)


async def test_what_there_is_no_time_for_says_so_and_the_first_is_always_looked_at() -> None:
    hurried = DoorOptions(replace(Limits(), preview_deadline=20.0, preview_seconds=20.0))
    async with Running(hurried) as service:
        _, body = await tried(service, a="x", b="y")
    first, second = body["documents"]
    assert (first["error"], second["error"]["code"]) == (None, "out_of_time")
    assert "Send fewer at once" in second["error"]["message"]


def test_near_duplicates_of_a_document_are_told_by_the_share_of_its_tokens() -> None:
    first = _tried("first", ["one two three four", "five six"])
    second = _tried("second", ["one two three four!", "seven"], echoes={0: Echo(0, 0, 0.9)})
    third = _tried("third", ["eight", "nine ten eleven twelve thirteen"])
    in_collection = {third.preview.passages[1].content_hash: (Place("self", "third"), Place("x", "old.md", 7))}  # type: ignore[union-attr]
    told = told_of([first, second, third], Repeated({}, in_collection), frozenset(), full=False).documents
    assert [(each.kind, each.where, each.name, each.share) for each in told[1].duplicates] == [
        ("near", "upload", "first", 0.8)
    ]
    (repeats,) = [chunk.repeats for chunk in told[2].chunks if chunk.repeats]
    assert (repeats.where, repeats.name, repeats.chunk) == ("collection", "third", 0)
    assert told[0].duplicates == []


def _tried(name: str, texts: list[str], echoes: dict[int, Echo] | None = None) -> Tried:
    passages = tuple(make_passage(name, ordinal, text) for ordinal, text in enumerate(texts))
    document = Document(name, name, name, tuple(Block(text) for text in texts), "text/plain")
    return Tried(Upload(name, name.encode()), name, name, Preview(document, passages, echoes or {}))


def test_where_nobody_reads_a_dry_run_is_refused() -> None:
    with Lane(LaneOptions("catalog")) as lane, TestClient(create_app(FakeStages(lane), DoorOptions())) as client:
        answer = client.post("/v1/parse", json={"documents": [{"text": "x"}]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
