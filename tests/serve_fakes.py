"""Serves fake stages in a process of its own, for tests of how it starts and ends: `python -m tests.serve_fakes GRACE`.

The generator says a word every 50 ms: 20 of them, or as many as the first argument after GRACE says.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

import uvloop

from api.assembly import DoorOptions, create_app
from api.serving import ServingOptions, log_to_stderr, serve
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Prompt, Token
from tests.fakes_api import FakeStages


class Talker:
    """Takes its time."""

    def __init__(self, words: int) -> None:
        self.words = words

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        for number in range(self.words):
            yield Token(text=f" {number}", delta={"content": f" {number}"})
            await asyncio.sleep(0.05)
        yield Token(finish_reason="stop")


async def main(grace: float, words: int) -> None:
    """Serves until a signal comes, and says when everything is closed."""
    with Lane(LaneOptions("catalog")) as lane:
        app = create_app(FakeStages(lane, generator=Talker(words)), DoorOptions())
        await serve(app, ServingOptions(port=0, grace=grace), on_start=lambda url: print(url, flush=True))  # noqa: T201
    print("closed", flush=True)  # noqa: T201


if __name__ == "__main__":
    log_to_stderr()
    uvloop.run(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20))
