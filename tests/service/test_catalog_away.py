"""The catalog in a PostgreSQL that goes away: what is open is searched on, and nobody is told where it should be."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgres import missing, postgres_server
from tests.running_service import MARKS, Site, answered, finished, retrieved, sent, sources
from workers.broker import EmbeddedRedis

pytestmark = [*MARKS, pytest.mark.postgres, pytest.mark.skipif(bool(missing()), reason=missing() or "-")]


async def test_while_the_catalog_is_away_passages_are_found_and_everything_else_says_when_to_come_again(
    model: Path, tmp_path: Path
) -> None:
    with EmbeddedRedis.open() as redis, ExitStack() as database:
        url = database.enter_context(postgres_server()).emptied()
        site = Site.make(tmp_path / "data", redis.url, model)
        with site.serving(CATALOG_URL=url) as api:
            async with api.client() as at:
                with site.working(CATALOG_URL=url):
                    await finished(at, await sent(at, "handbook", before="Before it went away."))
                database.close()
                document = {"documents": [{"text": "While it was away."}]}
                requests = (("GET", "/v1/collections", None), ("POST", "/v1/collections/handbook/documents", document))
                for method, path, body in requests:
                    async with at.request(method, path, json=body) as response:
                        told = (await response.json())["error"]
                    assert (response.status, told["code"]) == (503, "catalog_unavailable")
                    assert (response.headers["Retry-After"], "X-Should-Retry" in response.headers) == ("2", False)
                    assert "127.0.0.1" not in told["message"]
                    (line,) = api.requests(response.headers["X-Request-Id"])
                    assert "127.0.0.1" in line["detail"] or "terminat" in line["detail"]
                ready = await answered(at, "GET", "/readyz", 503)
                assert [name for name, check in ready["checks"].items() if not check["ok"]] == ["catalog"]
                assert sources(await retrieved(at, "away")) == ["before.md"]
                api.said("cannot be refreshed")
                async with at.get("/metrics") as response:
                    assert "fleetfoot_backlog_documents NaN" in await response.text()
                for _ in range(3):
                    await answered(at, "GET", "/readyz", 503)
        assert api.log.count("cannot be refreshed") == 1, api.log
