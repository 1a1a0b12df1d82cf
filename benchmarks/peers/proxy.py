"""The plain alternative to fleetfoot's streaming: FastAPI and httpx, as tutorials put them together, in .bench.

One shared client, `stream()`, and a StreamingResponse over what it yields: as raw bytes under /raw, line by line under
/lines. Nothing is slowed down on purpose: uvloop, httptools, no access log, and more kept connections than httpx keeps
by default, so that no stream pays for opening one.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse


def proxy(upstream: str) -> FastAPI:
    """The app; `upstream` is the model server's address, with its /v1."""
    app = FastAPI()
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None, max_keepalive_connections=100))

    async def raw(body: bytes) -> AsyncIterator[bytes]:
        headers = {"content-type": "application/json"}
        async with client.stream("POST", f"{upstream}/chat/completions", content=body, headers=headers) as response:
            async for chunk in response.aiter_raw():
                yield chunk

    async def lines(body: bytes) -> AsyncIterator[str]:
        headers = {"content-type": "application/json"}
        async with client.stream("POST", f"{upstream}/chat/completions", content=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line:
                    yield f"{line}\n\n"

    @app.post("/raw/v1/chat/completions")
    async def pass_on_bytes(request: Request) -> StreamingResponse:
        return StreamingResponse(raw(await request.body()), media_type="text/event-stream")

    @app.post("/lines/v1/chat/completions")
    async def pass_on_lines(request: Request) -> StreamingResponse:
        return StreamingResponse(lines(await request.body()), media_type="text/event-stream")

    return app


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("upstream")
    options = parser.parse_args()
    uvicorn.run(
        proxy(options.upstream),
        port=options.port,
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
