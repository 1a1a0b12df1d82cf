"""The command's side of the HTTP API: the same endpoints that everybody uses, and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import aiohttp

from pipeline.errors import FleetfootError, InvalidInput, Misconfigured, UpstreamFailed

Json = Mapping[str, Any]


class Refused(FleetfootError):
    """The service answered with an error; the text is the service's own sentence, `status` its HTTP status.

    `retry_after` is in seconds; None where waiting would not help.
    """

    def __init__(self, status: int, body: Json, retry_after: float | None = None) -> None:
        error: object = body.get("error")
        self.status, self.retry_after = status, retry_after
        message = cast("Json", error).get("message") if isinstance(error, Mapping) else error
        super().__init__(str(message or f"The service answered with status {status}, and says no more."))


@dataclass(frozen=True, slots=True)
class StageTiming:
    """One stage as the service told it, in milliseconds; `granted_ms` is None where there was no bound."""

    stage: str
    started_ms: float
    waited_ms: float
    worked_ms: float
    granted_ms: float | None
    cut: bool

    @classmethod
    def read(cls, timings: Json) -> tuple[StageTiming, ...]:
        """From the `timings` object of any response."""
        return tuple(
            cls(
                row["stage"],
                row["started_ms"],
                row["waited_ms"],
                row["worked_ms"],
                row.get("granted_ms"),
                bool(row.get("cut")),
            )
            for row in timings["laps"]
        )


class Client:
    """Talks to one service. Opened with `async with connect(…)`."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def get(self, path: str) -> Json:
        """The JSON answer of a GET."""
        return await self._json("GET", path)

    async def post(self, path: str, body: Json) -> Json:
        """The JSON answer of a POST with a JSON body."""
        return await self._json("POST", path, json=body)

    async def put(self, path: str, body: Json) -> Json:
        """The JSON answer of a PUT with a JSON body."""
        return await self._json("PUT", path, json=body)

    async def delete(self, path: str) -> Json:
        """The JSON answer of a DELETE."""
        return await self._json("DELETE", path)

    async def upload(
        self,
        collection: str,
        files: Sequence[tuple[str, Path]],
        *,
        key: str | None = None,
        webhook: str | None = None,
        access: Sequence[str] = (),
        metadata: Json | None = None,
    ) -> Json:
        """Sends files under their names, with these labels and this metadata; returns the job. The same files with the
        same `key` again are the same job."""
        asked = f"?webhook={quote(webhook, safe='')}" if webhook else ""
        path = f"/v1/collections/{quote(collection, safe='')}/documents{asked}"
        fields = {"access": list(access) or None, "metadata": metadata or None}
        return await self._send(path, files, {"Idempotency-Key": key} if key else {}, fields)

    async def parse(self, files: Sequence[tuple[str, Path]], asked: str) -> Json:
        """Has files read and cut as an upload would be; nothing is kept. `asked` is the query."""
        return await self._send(f"/v1/parse?{asked}", files, {})

    async def _send(
        self,
        path: str,
        files: Sequence[tuple[str, Path]],
        headers: Mapping[str, str],
        fields: Mapping[str, object] = MappingProxyType({}),
    ) -> Json:
        """Files are read as they go out, so that large ones are never in memory as a whole."""
        form = aiohttp.FormData(quote_fields=False)
        for field, value in fields.items():
            if value is not None:
                form.add_field(field, json.dumps(value))
        with ExitStack() as opened:
            for name, file in files:
                content = opened.enter_context(_opened(file))
                form.add_field("files", content, filename=name, content_type="application/octet-stream")
            return await self._json("POST", path, data=form, headers=headers)

    async def text(self, path: str) -> str:
        """The text of a GET, such as a CSV file."""
        async with self._request("GET", path) as response:
            return await response.text("utf-8")

    async def job(self, job_id: str) -> Json:
        """How far a job is."""
        return await self._json("GET", f"/v1/jobs/{quote(job_id, safe='')}")

    async def events(self, method: str, path: str, body: Json | None = None) -> AsyncGenerator[tuple[str, str]]:
        """Server-sent events as (event name, data); the name is `message` where none was given."""
        async with self._request(method, path, json=body) as response:
            name, data = "message", list[str]()
            async for raw in response.content:
                line = raw.decode().rstrip("\r\n")
                if not line:
                    if data:
                        yield name, "\n".join(data)
                    name, data = "message", []
                elif line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))

    async def _json(self, method: str, path: str, **options: Any) -> Json:
        async with self._request(method, path, **options) as response:
            return cast("Json", await response.json())

    @asynccontextmanager
    async def _request(self, method: str, path: str, **options: Any) -> AsyncGenerator[aiohttp.ClientResponse]:
        try:
            async with self._session.request(method, self._url + path, **options) as response:
                if response.status >= 400:
                    raise Refused(response.status, _body(await response.text()), _patience(response.headers))
                yield response
        except aiohttp.ClientConnectorError as failure:
            raise Misconfigured(
                f"Nothing answers at {self._url} ({failure.os_error}). Start it with `fleetfoot serve`, or name "
                "another one with --url or FLEETFOOT_URL."
            ) from failure
        except aiohttp.InvalidURL as failure:
            raise Misconfigured(
                f"'{self._url}' is no address of a service. Give --url or FLEETFOOT_URL one like http://127.0.0.1:8080."
            ) from failure
        except aiohttp.ContentTypeError as failure:
            raise Misconfigured(
                f"What answers at {self._url} is not fleetfoot ({failure.message}). Check --url or FLEETFOOT_URL."
            ) from failure
        except (aiohttp.ClientError, OSError) as failure:
            raise UpstreamFailed(
                f"The connection to {self._url} broke off ({type(failure).__name__}). See the service's log; it is "
                "safe to try again."
            ) from failure


@asynccontextmanager
async def connect(url: str, key: str | None = None) -> AsyncGenerator[Client]:
    """A client of the service at `url`, with an API key where the service wants one."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=2**20) as session:
        yield Client(session, url)


def _patience(headers: Mapping[str, str]) -> float | None:
    asked = headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else None


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as failure:
        raise InvalidInput(f"'{path}' cannot be read: {failure.strerror}.", field="PATH") from failure


def _body(text: str) -> Json:
    try:
        body: object = json.loads(text)
    except json.JSONDecodeError:
        body = text[:500]
    return cast("Json", body) if isinstance(body, dict) else {"error": body}
