"""A proxy with the habits that break streams: it holds a response until it is complete, and gzips it.

It lets go of both habits where a response says so, as nginx and others do: `X-Accel-Buffering: no` for the first,
`Cache-Control: no-transform` for the second.
"""

from __future__ import annotations

import gzip
import zlib
from types import TracebackType

import aiohttp
from aiohttp import web

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date"})


class BufferingProxy:
    """`held` and `zipped` list the paths whose responses it held back and compressed."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.held: list[str] = []
        self.zipped: list[str] = []
        self.url = ""
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> BufferingProxy:
        self._session = aiohttp.ClientSession(self.target, auto_decompress=False)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP | {"host"}}
        body = await request.read()
        async with self._session.request(request.method, request.path_qs, data=body, headers=headers) as upstream:
            buffer = upstream.headers.get("X-Accel-Buffering") != "no"
            compress = "no-transform" not in upstream.headers.get("Cache-Control", "")
            compress = compress and "gzip" in request.headers.get("Accept-Encoding", "")
            passed = {name: value for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP}
            if compress:
                self.zipped.append(request.path)
                passed["Content-Encoding"] = "gzip"
            if buffer:
                self.held.append(request.path)
                whole = await upstream.read()
                return web.Response(
                    status=upstream.status, headers=passed, body=gzip.compress(whole) if compress else whole
                )
            response = web.StreamResponse(status=upstream.status, headers=passed)
            await response.prepare(request)
            packer = zlib.compressobj(wbits=31) if compress else None  # it gathers, as compressors do
            async for piece in upstream.content.iter_any():
                await response.write(packer.compress(piece) if packer else piece)
            await response.write_eof(packer.flush() if packer else b"")
            return response
