"""Why a document is found, told over HTTP to those who may know."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.assembly import DoorOptions
from api.callers import hash_of
from pipeline.explaining import DocumentState, Standing
from tests.fakes_api import FakeCatalog, Running, Service

EXPLAIN = "/v1/collections/handbook/explain"
PUBLISHED = Standing("notice", "notice.md", DocumentState.PUBLISHED, 1, job="job7")


def knowing(*standings: Standing) -> FakeCatalog:
    catalog = FakeCatalog()
    for standing in standings:
        catalog.standings |= {standing.name: standing, standing.id: standing}
    return catalog


async def explained(service: Service, status: int = 200, key: str | None = None, **body: object) -> dict[str, object]:
    asked = {"query": "How long is the notice period?", "document": "notice.md", **body}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with service.client.post(service.url + EXPLAIN, json=asked, headers=headers) as response:
        told = await response.json()
        assert response.status == status, told
        return told


async def test_a_document_is_explained_from_the_catalog_to_its_place_among_the_sources() -> None:
    async with Running(catalog=knowing(PUBLISHED)) as service:
        told = await explained(service)
        ((query, document),) = service.stages.explainer.asked
    assert document == "notice"
    assert query.text == "How long is the notice period?"
    assert told["document"] == {
        "id": "notice", "name": "notice.md", "state": "published", "passages": 1, "changing": False,
        "job": "job7", "reason": "",
    }  # fmt: skip
    assert (told["verdict"], told["said"], told["generation"]) == ("packed", "It is source 2.", "handbook@7")
    (passage,) = told["passages"]  # type: ignore[misc]
    assert passage["id"] == "notice:0"
    assert passage["legs"]["lexical"] == {
        "rank": 2, "score": 8.0, "of": 3, "served": 2, "terms": [{"term": "leav", "score": 8.0, "passages": 1}],
    }  # fmt: skip
    assert (passage["fused"]["rank"], passage["final"], passage["number"]) == (2, 2, 2)
    stages = [lap["stage"] for lap in told["timings"]["laps"]]  # type: ignore[index]
    assert stages[-1] == "explain"


async def test_what_retrieve_takes_is_taken_here_too() -> None:
    async with Running(catalog=knowing(PUBLISHED)) as service:
        told = await explained(
            service, top_k=1, search={"candidates": 30}, filters={"type": "eq", "key": "year", "value": 2025}
        )
        ((query, _),) = service.stages.explainer.asked
    assert query.profile.pack.top_k == 1
    assert query.profile.search.candidates == 30
    assert query.filter is not None
    assert query.caller.priority > 0, "whoever waits for an answer goes first"
    assert told["verdict"] == "top_k"


@pytest.mark.parametrize(
    "standing",
    [
        Standing("d9", "notice.md", DocumentState.UNDER_WAY, reason="parsed"),
        Standing("d9", "notice.md", DocumentState.FAILED, reason="'notice.md' is broken."),
        Standing("", "notice.md", DocumentState.UNKNOWN),
    ],
)
async def test_what_is_not_searched_is_told_without_looking(standing: Standing) -> None:
    async with Running(catalog=knowing(standing)) as service:
        told = await explained(service)
        assert service.stages.explainer.asked == []
    assert (told["verdict"], told["passages"]) == ("not_indexed", [])
    assert told["document"]["state"] == standing.state  # type: ignore[index]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"query": " "}, 400, "query"),
        ({"document": " "}, 400, "document"),
        ({"query": "x" * 100_000}, 413, "query"),
        ({"deadline_ms": 10**9}, 400, "deadline_ms"),
        ({"profile": "slow"}, 404, "profile"),
        ({"top_k": 10**6}, 400, "top_k"),
        ({"unknown": 1}, 400, "unknown"),
    ],
)
async def test_what_cannot_be_explained_says_what_is_wrong(body: dict[str, object], status: int, field: str) -> None:
    async with Running(catalog=knowing(PUBLISHED)) as service:
        told = await explained(service, status, **body)
    assert told["error"]["param"] == field  # type: ignore[index]


async def test_an_unknown_collection_is_not_found() -> None:
    async with Running() as service:
        url = f"{service.url}/v1/collections/handbok/explain"
        async with service.client.post(url, json={"query": "a", "document": "b"}) as response:
            assert response.status == 404


async def test_a_key_explains_for_those_who_have_fewer_labels_and_for_nobody_who_has_others(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    reader, boss = hash_of("ff-reader"), hash_of("ff-boss")
    keys.write_text(
        f'[[keys]]\nhash = "{reader}"\ntenant = "acme"\nscopes = ["read"]\nlabels = ["hr", "it"]\n'
        f'[[keys]]\nhash = "{boss}"\ntenant = "acme"\nscopes = ["read", "ingest", "admin"]\n'
    )
    catalog = knowing(PUBLISHED)
    async with Running(DoorOptions(keys_file=keys), catalog=catalog) as service:
        own = frozenset({"hr", "it"})
        for labels, seen_as in (({}, own), ({"labels": ["it"]}, {"it"}), ({"labels": []}, set[str]())):
            await explained(service, key="ff-reader", **labels)
            assert catalog.labels[-1] == own, "the reader is told of what its own labels open"
            (query, _) = service.stages.explainer.asked[-1]
            assert query.caller.labels == seen_as
        for key in ("ff-reader", "ff-boss"):
            refused = await explained(service, 403, key=key, labels=["board"])
            assert "'board'" in refused["error"]["message"]  # type: ignore[index]
