"""With a keys file: who has no key stays out, scopes are kept, and no tenant sees another."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from api.callers import NewKey, new_key
from tests.running_service import MARKS, Api, Site, answered, command, finished, retrieved, sent, sources

pytestmark = MARKS


@dataclass(frozen=True, slots=True)
class Keyed:
    """A door with keys, over the same data; the key of each of its three callers."""

    api: Api
    acme: str
    globex: str
    reader: str


@pytest.fixture(scope="module")
def keyed(site: Site, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Generator[Keyed, None, None]:
    acme, globex, reader = new_key(), new_key(), new_key()
    file = tmp_path_factory.mktemp("keys") / "keys.toml"
    file.write_text(
        entry(acme, "acme", '"read", "ingest", "admin"')
        + entry(globex, "globex", '"read", "ingest"')
        + entry(reader, "default", '"read"')
    )
    with site.serving(KEYS_FILE=str(file)) as serving:
        yield Keyed(serving, acme.key, globex.key, reader.key)


def entry(key: NewKey, tenant: str, scopes: str) -> str:
    return f'[[keys]]\nhash = "{key.hash}"\ntenant = "{tenant}"\nscopes = [{scopes}]\n'


async def test_a_restarted_door_has_every_collection_open_before_the_first_request(keyed: Keyed) -> None:
    async with keyed.api.client(keyed.reader) as client:
        ready = await answered(client, "GET", "/readyz")
        collections = (await answered(client, "GET", "/v1/collections"))["data"]
        published = sum(collection["generation"] is not None for collection in collections)
        assert ready["checks"]["index"] == {
            "ok": True,
            "needed": True,
            "detail": f"{published} collections open",
        }
        result = await retrieved(client, "marmot")
        assert "notices/marmots.md" in sources(result)
        assert "admit" not in {lap["stage"] for lap in result["timings"]["laps"]}, "nothing was opened for it"


async def test_without_a_key_nothing_is_told_but_health(keyed: Keyed) -> None:
    for key in (None, "ff-nobody-knows-this-key"):
        async with keyed.api.client(key) as client:
            for method, path in (("GET", "/v1/models"), ("POST", "/v1/retrieve"), ("GET", "/v1/collections")):
                async with client.request(method, path) as response:
                    assert response.status == 401
                    assert response.headers["WWW-Authenticate"] == "Bearer"
                    assert (await response.json())["error"]["code"] == "unauthenticated"
            await answered(client, "GET", "/healthz")
            await answered(client, "GET", "/readyz")


async def test_a_key_does_what_its_scopes_say(keyed: Keyed) -> None:
    async with keyed.api.client(keyed.reader) as client:
        await retrieved(client, "marmot")
        body = {"documents": [{"text": "no"}]}
        refused = await answered(client, "POST", "/v1/collections/handbook/documents", 403, json=body)
        assert refused["error"]["code"] == "not_allowed"
        assert "ingest" in refused["error"]["message"]
        await answered(client, "DELETE", "/v1/collections/handbook", 403)
    async with keyed.api.client(keyed.globex) as client:
        refused = await answered(client, "DELETE", "/v1/collections/handbook", 403)
        assert "admin" in refused["error"]["message"]


async def test_tenants_do_not_see_each_others_collections_documents_and_jobs(keyed: Keyed) -> None:
    async with keyed.api.client(keyed.acme) as acme, keyed.api.client(keyed.globex) as globex:
        job = await finished(acme, await sent(acme, "plans", secret="Acme builds a rocket."))
        document = (await answered(acme, "GET", "/v1/collections/plans/documents"))["data"][0]
        for path in (
            f"/v1/jobs/{job['id']}",
            f"/v1/jobs/{job['id']}/events",
            f"/v1/jobs/{job['id']}/items",
            "/v1/collections/plans",
            "/v1/collections/plans/documents",
            f"/v1/collections/plans/documents/{document['id']}",
            "/v1/collections/handbook",
        ):
            refused = await answered(globex, "GET", path, 404)
            assert "plans." not in refused["error"]["message"]
            assert "handbook," not in refused["error"]["message"]
        for path in ("/v1/collections", "/v1/models", "/v1/jobs"):
            assert (await answered(globex, "GET", path))["data"] == []
        asked = {"query": "rocket", "collection": "plans"}
        await answered(globex, "POST", "/v1/retrieve", 404, json=asked)
        await finished(globex, await sent(globex, "plans", own="Globex builds a ferry."))
        assert sources(await retrieved(globex, "builds", "plans")) == ["own.md"]
        assert sources(await retrieved(acme, "builds", "plans")) == ["secret.md"]
        assert document["id"] not in str(await answered(globex, "GET", "/v1/collections/plans/documents"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_without_keys_an_address_that_others_reach_is_refused_at_start(host: str, tmp_path: Path) -> None:
    done = command("serve", env={"FLEETFOOT_HOST": host, "FLEETFOOT_DATA_DIR": str(tmp_path)})
    assert done.returncode == 1
    assert f"FLEETFOOT_HOST={host}" in done.stderr
    assert "FLEETFOOT_KEYS_FILE" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "catalog.sqlite").exists(), "it touched nothing"


async def test_a_web_page_of_another_site_is_refused_where_there_are_no_keys(client: aiohttp.ClientSession) -> None:
    for name, value in (("Origin", "https://elsewhere.example"), ("Host", "elsewhere.example")):
        await answered(client, "GET", "/v1/models", 403, headers={name: value})
