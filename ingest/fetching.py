"""Fetching what a URL names, within bounds, and not again what has not changed.

Only URLs that somebody named are fetched and no link in them is followed, so this is no crawler, and `robots.txt`,
which speaks to crawlers, is not asked. Conditional requests: RFC 9110, 13.1. Where connections may go: `addresses.py`.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

import aiohttp
from yarl import URL

from ingest.addresses import Addresses, AddressRefused
from pipeline.errors import Unparsable
from pipeline.origins import Validators

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GONE = frozenset({404, 410})
_GOOD = frozenset({200, 203})
_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEADER = 47  # 32 + 15: zlib tells gzip's header from its own
_LONGEST_HEADER = 1024  # of a validator or a media type that is kept
_HEADERS = {"User-Agent": "fleetfoot", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchingOptions:
    """At most `content` bytes of a body, unpacked, at most `seconds` for all of it, redirects included."""

    content: int = 64 * 2**20
    seconds: float = 30.0
    redirects: int = 5
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A URL to fetch; where its document is known by `validators`, only if it has changed since."""

    url: str
    validators: Validators = field(default_factory=Validators)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A body, unpacked, with its media type as declared (charset and all; empty where none was)."""

    content: bytes
    media_type: str
    validators: Validators


class Unfetchable(Unparsable):
    """A URL gave no document; it fails alone, with this reason. `gone` where the server says that there is none."""

    def __init__(self, message: str, *, gone: bool = False, detail: str = "") -> None:
        super().__init__(message)
        self.gone, self.detail = gone, detail


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one URL: something fetched, or a failure, or neither: it has not changed."""

    fetched: Fetched | None = None
    failure: Unfetchable | None = None


class Fetches(Protocol):
    """Brings what URLs name."""

    def fetch(self, asked: Sequence[Asked]) -> Sequence[Answer]:
        """An answer for each, in their order; never raises for what a URL or its server does."""
        ...


class Fetcher:
    """Fetches all that it is given at the same time, in an event loop of its own, over connections that it closes."""

    def __init__(self, options: FetchingOptions | None = None, addresses: Addresses | None = None) -> None:
        self.options = options or FetchingOptions()
        self._addresses = addresses or Addresses(allow_private=self.options.allow_private)

    def fetch(self, asked: Sequence[Asked]) -> tuple[Answer, ...]:
        """See `Fetches`; not to be called inside a running event loop."""
        return asyncio.run(self._all(asked)) if asked else ()

    async def _all(self, asked: Sequence[Asked]) -> tuple[Answer, ...]:
        timeout = aiohttp.ClientTimeout(total=None)  # `_one` has the only clock
        async with aiohttp.ClientSession(
            connector=self._addresses.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=timeout,
            headers=_HEADERS,
        ) as session:
            return tuple(await asyncio.gather(*(self._one(session, each) for each in asked)))

    async def _one(self, session: aiohttp.ClientSession, asked: Asked) -> Answer:
        try:
            async with asyncio.timeout(self.options.seconds):
                return Answer(await self._followed(session, asked))
        except Unfetchable as failure:
            return Answer(failure=failure)
        except AddressRefused as refused:
            _log.warning("%s was not fetched: %s", asked.url, refused.detail)
            return Answer(failure=Unfetchable(str(refused), detail=refused.detail))
        except TimeoutError:
            reason = f"it took more than {self.options.seconds:g} s"
            return Answer(failure=Unfetchable(f"'{asked.url}' cannot be fetched: {reason}."))
        except (aiohttp.ClientError, aiohttp.InvalidURL, OSError, ValueError) as error:
            _log.info("%s was not fetched: %s: %s", asked.url, type(error).__name__, error)
            return Answer(failure=Unfetchable(f"'{asked.url}' cannot be fetched: {_reason(error)}."))

    async def _followed(self, session: aiohttp.ClientSession, asked: Asked) -> Fetched | None:
        """What the URL, or the last one that it leads to, has; None when it has not changed."""
        url = asked.url
        for _ in range(self.options.redirects + 1):
            conditions = asked.validators.conditions(url)
            async with session.get(url, headers=conditions, allow_redirects=False) as response:
                if response.status in _REDIRECTS:
                    url = _target(response, asked.url)
                    continue
                if response.status == HTTPStatus.NOT_MODIFIED and conditions:
                    return None
                if response.status not in _GOOD:
                    raise _refusal(response.status, asked.url)
                return await self._read(response, url, asked.url)
        raise Unfetchable(
            f"'{asked.url}' was redirected more than {self.options.redirects} times. Name the address it ends at."
        )

    async def _read(self, response: aiohttp.ClientResponse, url: str, name: str) -> Fetched:
        most = self.options.content
        if (response.content_length or 0) > most:
            raise _too_large(name, most)
        headers = response.headers
        body = _Body(headers.get("Content-Encoding", "").strip().lower(), name, most)
        async for chunk in response.content.iter_any():
            body.add(chunk)
        validators = Validators(url, _kept(headers, "ETag"), _kept(headers, "Last-Modified"))
        return Fetched(body.complete(), _kept(headers, "Content-Type"), validators)


class _Body:
    """A body as it comes, unpacked no further than to the limit: a few kilobytes of gzip can be gigabytes of text."""

    def __init__(self, coding: str, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._content = bytearray()
        if coding not in {"", "identity", *_CODINGS}:
            raise Unfetchable(f"'{name}' is packed as '{coding[:40]}', which was not asked for and is not read.")
        self._inflating = zlib.decompressobj(_ANY_HEADER) if coding in _CODINGS else None

    def add(self, chunk: bytes) -> None:
        """Raises Unfetchable beyond the limit."""
        while chunk:
            if self._inflating is None:
                self._content += chunk
                chunk = b""
            else:
                if self._inflating.eof:  # a further member of a gzip file: RFC 1952, 2.2
                    self._inflating = zlib.decompressobj(_ANY_HEADER)
                try:
                    self._content += self._inflating.decompress(chunk, self._most + 1 - len(self._content))
                except zlib.error as error:
                    reason = "its body is not packed as it says"
                    raise Unfetchable(f"'{self._name}' cannot be fetched: {reason}.") from error
                chunk = self._inflating.unused_data or self._inflating.unconsumed_tail
            if len(self._content) > self._most:
                raise _too_large(self._name, self._most)

    def complete(self) -> bytes:
        """The whole of it. Raises Unfetchable where its end is missing."""
        if self._inflating is not None and not self._inflating.eof:
            raise Unfetchable(f"'{self._name}' cannot be fetched: its body broke off in the middle.")
        return bytes(self._content)


def _target(response: aiohttp.ClientResponse, name: str) -> str:
    location = response.headers.get("Location", "")
    try:
        target = response.url.join(URL(location)).with_user(None).with_fragment(None)
    except ValueError as error:
        raise Unfetchable(f"'{name}' was redirected to no address.") from error
    if not location or target.scheme not in {"http", "https"} or not target.host:
        raise Unfetchable(f"'{name}' was redirected to what is no http address.")
    return str(target)


def _refusal(status: int, name: str) -> Unfetchable:
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    if status in _GONE:
        return Unfetchable(f"'{name}' answered {phrase}: there is nothing.", gone=True)
    return Unfetchable(f"'{name}' answered {phrase}.")


def _too_large(name: str, most: int) -> Unfetchable:
    return Unfetchable(f"'{name}' has more than {most:,} bytes, the limit for one document. Name a part of it.")


def _reason(error: Exception) -> str:
    """In words of ours: those of the libraries name addresses."""
    match error:
        case aiohttp.InvalidURL():
            return "it is no address that can be asked"
        case aiohttp.ClientConnectorDNSError():
            return "its host's name is not known"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its host cannot prove who it is (TLS)"
        case aiohttp.ClientConnectorError():
            return "nobody answers at its host"
        case aiohttp.ClientPayloadError():
            return "its body broke off in the middle"
        case aiohttp.ServerDisconnectedError():
            return "its host hung up without an answer"
        case _:
            return "its host answered what is no HTTP"


def _kept(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "").strip()
    return value if len(value) <= _LONGEST_HEADER and value.isprintable() else ""
