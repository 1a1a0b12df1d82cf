"""Generations over HTTP: everybody who reads may look, whoever has the scope admin may act."""

from __future__ import annotations

from pathlib import Path

from api.assembly import DoorOptions
from api.callers import new_key
from tests.fakes_api import Running

ROOT = "/v1/collections/handbook"


async def test_the_kept_generations_are_listed_with_what_is_dead_in_them() -> None:
    async with Running() as service, service.client.get(f"{service.url}{ROOT}/generations") as response:
        body = await response.json()
    assert (response.status, body["collection"], len(body["data"])) == (200, "handbook", 2)
    assert body["data"][0] == {
        "number": 7,
        "current": True,
        "documents": 3,
        "passages": 3,
        "segments": 2,
        "dead_share": 0.25,
        "size_bytes": 4096,
        "published": 1e9,
        "superseded": None,
        "pinned": False,
        "withdrawn": False,
        "restores": None,
        "readers": 1,
    }


async def test_a_roll_back_serves_when_it_is_answered() -> None:
    async with Running() as service:
        async with service.client.post(f"{service.url}{ROOT}/rollback", json={"generation": 6}) as response:
            body = await response.json()
        assert (response.status, body["number"], body["restores"]) == (200, 8, 6)
        assert service.stages.looked_again == [("default", "handbook")]
        assert service.stages.keeping.done == [("roll back", "handbook", 6)]


async def test_what_cannot_be_rolled_back_to_is_told_apart() -> None:
    statuses = []
    async with Running() as service:
        for body in ({"generation": 7}, {"generation": 3}, {"generation": 0}, {}, {"generation": "six"}):
            async with service.client.post(f"{service.url}{ROOT}/rollback", json=body) as response:
                statuses.append((response.status, (await response.json())["error"]["code"]))
    assert statuses == [(409, "conflict"), (404, "not_found"), *[(400, "invalid_request")] * 3]


async def test_damage_is_an_answer_and_no_error() -> None:
    async with Running(damaged={6}) as service:
        found = []
        for number in (7, 6):
            async with service.client.post(f"{service.url}{ROOT}/generations/{number}/verify") as response:
                found.append(await response.json())
    assert found == [
        {"generation": 7, "ok": True, "detail": ""},
        {"generation": 6, "ok": False, "detail": "'handbook@6' is damaged."},
    ]


async def test_a_generation_is_pinned_and_let_go() -> None:
    async with Running() as service:
        async with service.client.post(f"{service.url}{ROOT}/generations/6/pin") as response:
            assert (await response.json())["pinned"]
        async with service.client.delete(f"{service.url}{ROOT}/generations/6/pin") as response:
            assert not (await response.json())["pinned"]
        assert service.stages.keeping.done == [("pin", "handbook", (6, True)), ("pin", "handbook", (6, False))]


async def test_pruning_tells_what_is_forgotten_and_compaction_what_will_be_compacted() -> None:
    async with Running() as service:
        async with service.client.post(f"{service.url}{ROOT}/prune") as response:
            assert await response.json() == {"collection": "handbook", "pruned": [4, 5]}
        async with service.client.post(f"{service.url}{ROOT}/compact") as response:
            assert (response.status, (await response.json())["number"]) == (202, 7)
        assert service.stages.nudge.times == 1


async def test_looking_needs_a_key_that_reads_and_acting_one_of_an_admin(tmp_path: Path) -> None:
    made = new_key()
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[keys]]\nhash = "{made.hash}"\ntenant = "acme"\nscopes = ["read", "ingest"]\n')
    headers = {"Authorization": f"Bearer {made.key}"}
    paths = ("rollback", "prune", "compact", "generations/7/pin", "generations/7/verify")
    async with Running(DoorOptions(version="1", keys_file=keys)) as service:
        async with service.client.get(f"{service.url}{ROOT}/generations", headers=headers) as response:
            assert response.status == 200
        for path in paths:
            url = f"{service.url}{ROOT}/{path}"
            async with service.client.post(url, headers=headers, json={"generation": 6}) as response:
                assert (path, response.status) == (path, 403)
        assert service.stages.keeping.done == []


async def test_collections_tell_of_segments_and_dead_weight() -> None:
    async with Running() as service, service.client.get(f"{service.url}/v1/collections") as response:
        first = (await response.json())["data"][0]
    assert (first["segments"], first["dead_share"], first["size_bytes"]) == (0, 0.0, None)
