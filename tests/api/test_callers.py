"""Who is let in, to what, and how often."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from api.assembly import DoorOptions
from api.callers import Bucket, Callers, hash_of, new_key
from api.serving import refuse_strangers
from pipeline.errors import Misconfigured, QuotaUsedUp
from tests.fakes_api import FakeRetriever, Running

READER, WRITER, BUSY = "ff-reader", "ff-writer", "ff-busy"


@pytest.fixture
def keys(tmp_path: Path) -> DoorOptions:
    """Three keys: one reads for acme, one ingests for acme, one may ask twice a minute."""
    path = tmp_path / "keys.toml"
    path.write_text(
        f"""
        [[keys]]
        hash = "{hash_of(READER)}"
        tenant = "acme"
        scopes = ["read"]
        labels = ["staff"]
        priority = 3

        [[keys]]
        hash = "{hash_of(WRITER)}"
        tenant = "acme"
        scopes = ["ingest"]

        [[keys]]
        hash = "{hash_of(BUSY)}"
        tenant = "busy"
        scopes = ["read", "ingest", "admin"]
        quota = 2
        """,
        encoding="utf-8",
    )
    return DoorOptions(keys_file=path)


def bearer(key: str) -> dict[str, str]:
    """The header."""
    return {"Authorization": f"Bearer {key}"}


ASKED = {"query": "leave", "collection": "handbook"}


async def test_a_key_decides_tenant_labels_and_priority_and_a_body_cannot(keys: DoorOptions) -> None:
    retriever = FakeRetriever()
    async with (
        Running(keys, retriever=retriever) as service,
        service.client.post(f"{service.url}/v1/retrieve", json=ASKED, headers=bearer(READER)) as response,
    ):
        assert response.status == 200
    caller = retriever.queries[0].caller
    assert (caller.tenant, caller.labels, caller.priority) == ("acme", frozenset({"staff"}), 3)


@pytest.mark.parametrize("headers", [{}, bearer("ff-nobody"), bearer(""), {"Authorization": "Basic ff-reader"}])
async def test_without_a_known_key_nothing_is_read_and_health_is_open(
    keys: DoorOptions, headers: dict[str, str]
) -> None:
    async with Running(keys) as service:
        async with service.client.post(f"{service.url}/v1/retrieve", json=ASKED, headers=headers) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert (await response.json())["error"]["type"] == "authentication_error"
        async with service.client.get(f"{service.url}/healthz") as response:
            assert response.status == 200


async def test_the_log_names_a_tenant_only_where_the_caller_is_known(
    keys: DoorOptions, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fleetfoot.requests"):
        async with Running(keys) as service:
            for key, times in (("ff-nobody", 1), (WRITER, 1), (BUSY, 3)):
                for _ in range(times):
                    async with service.client.get(f"{service.url}/v1/models", headers=bearer(key)) as response:
                        await response.read()
        async with Running() as service, service.client.get(f"{service.url}/v1/models") as response:
            await response.read()
    lines = [json.loads(record.message) for record in caplog.records if record.name == "fleetfoot.requests"]
    told = [(line["status"], line["tenant"]) for line in lines]
    assert told == [(401, ""), (403, "acme"), (200, "busy"), (200, "busy"), (429, "busy"), (200, "default")]


async def test_a_scope_that_is_missing_is_named(keys: DoorOptions) -> None:
    async with Running(keys) as service:
        for method, path, key, scope in (
            ("POST", "/v1/retrieve", WRITER, "'read'"),
            ("POST", "/v1/collections/handbook/documents", READER, "'ingest'"),
            ("DELETE", "/v1/collections/handbook", WRITER, "'admin'"),
        ):
            async with service.client.request(method, service.url + path, json=ASKED, headers=bearer(key)) as response:
                assert response.status == 403
                assert scope in (await response.json())["error"]["message"]


async def test_a_quota_is_this_callers_and_says_how_long_to_wait(keys: DoorOptions) -> None:
    async with Running(keys) as service:
        statuses: list[int] = []
        for _ in range(3):
            async with service.client.get(f"{service.url}/v1/models", headers=bearer(BUSY)) as response:
                statuses.append(response.status)
                body = await response.json()
        assert statuses == [200, 200, 429]
        assert 1 <= int(response.headers["Retry-After"]) <= 30
        assert body["error"]["code"] == "quota_used_up"
        async with service.client.get(f"{service.url}/v1/models", headers=bearer(READER)) as response:
            assert response.status == 200


def test_a_bucket_fills_again_evenly() -> None:
    bucket = Bucket(60)
    for _ in range(60):
        bucket.take(100.0)
    with pytest.raises(QuotaUsedUp) as refused:
        bucket.take(100.5)
    assert refused.value.retry_after == pytest.approx(0.5)
    bucket.take(101.1)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Host": "elsewhere.example:8080"},
        {"Origin": "null"},
        {"Origin": "http://[::1"},
    ],
)
async def test_without_keys_web_pages_of_other_sites_are_kept_out(headers: dict[str, str]) -> None:
    async with Running() as service:
        async with service.client.get(f"{service.url}/v1/models", headers=headers) as response:
            assert response.status == 403
        local = {"Origin": "http://localhost:3000"}
        async with service.client.get(f"{service.url}/v1/models", headers=local) as response:
            assert response.status == 200


def test_a_new_key_is_found_by_its_hash_and_never_twice_the_same() -> None:
    one, other = new_key(), new_key()
    assert one.hash == hash_of(one.key)
    assert one.key != other.key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[keys]]\nhash = 'sha256:12'\ntenant = 'a'\nscopes = ['read']", "keys.0.hash"),
        (f"[[keys]]\nhash = '{hash_of('a')}'\ntenant = 'a'\nscopes = ['write']", "keys.0.scopes.0"),
        (f"[[keys]]\nhash = '{hash_of('a')}'\ntenant = 'a'\nscopes = ['read']\nquotas = 3", "keys.0.quotas"),
        ("keys = []", "keys"),
        ("[[keys", "TOML"),
    ],
)
def test_a_keys_file_that_cannot_be_used_is_refused_at_start(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Misconfigured, match=says.replace(".", r"\.")):
        Callers.open(path)


def test_a_missing_keys_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="fleetfoot keys new"):
        Callers.open(tmp_path / "nothing.toml")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com"])
def test_strangers_are_never_served_without_keys(host: str) -> None:
    with pytest.raises(Misconfigured, match="FLEETFOOT_KEYS_FILE"):
        refuse_strangers(host, by_key=False)
    refuse_strangers(host, by_key=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_is_served_without_keys(host: str) -> None:
    refuse_strangers(host, by_key=False)
