"""Bodies that cannot be used are told as FastAPI tells them: where, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes_api import Running

JSON = {"Content-Type": "application/json"}
QUERY = b'{"query": "leave", "collection": "handbook"}'


@pytest.mark.parametrize("path", ["/v1/retrieve", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("body", "headers", "said", "param"),
    [
        (b"", JSON, "field required", "body"),
        (b'{"query": ', JSON, "not JSON", "body"),
        (b"[1]", JSON, "must be a JSON object", "body"),
        (b"\xff\xfe\xfa", JSON, "", None),
        (QUERY, {"Content-Type": "text/plain"}, "sent with 'Content-Type: application/json'", "body"),
        (b'{"deadline_ms": -1}', JSON, "", None),
    ],
)
async def test_a_body_that_cannot_be_used_is_a_400_that_says_why(
    path: str, body: bytes, headers: dict[str, str], said: str, param: str | None
) -> None:
    async with Running() as service, service.client.post(service.url + path, data=body, headers=headers) as response:
        error: dict[str, Any] = (await response.json())["error"]
    assert response.status == 400
    assert said in error["message"]
    assert param in {None, error["param"]}


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"])
async def test_whatever_is_called_json_is_read_as_json(kind: str) -> None:
    async with (
        Running() as service,
        service.client.post(f"{service.url}/v1/retrieve", data=QUERY, headers={"Content-Type": kind}) as response,
    ):
        assert response.status == 200


async def test_the_document_of_the_interface_has_both_bodies_and_the_deadlines_header() -> None:
    async with Running() as service, service.client.get(f"{service.url}/openapi.json") as response:
        schema = await response.json()
    for path, kind in (("/v1/retrieve", "RetrieveIn"), ("/v1/chat/completions", "ChatIn")):
        asked = schema["paths"][path]["post"]
        content = asked["requestBody"]["content"]["application/json"]
        assert content["schema"] == {"$ref": f"#/components/schemas/{kind}"}
        assert content["examples"]
        assert kind in schema["components"]["schemas"]
        assert [parameter["name"] for parameter in asked["parameters"]] == ["x-request-deadline-ms"]
