"""Real clients on a real service: the unmodified openai package, and `curl -N`, with a scripted model server behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openai import OpenAI

ROOT = Path(__file__).resolve().parents[1]
TEXT = "The driver stops ten metres short of it [1] , sounds the whistle once , and waits until it has gone ."
BETWEEN_MS = 40


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the openai package saw: the streamed text, its chunks, the query used for the follow-up, and usage."""

    text: str
    chunks: int
    follow_up: str
    follow_up_query: str
    completion_tokens: int


@contextmanager
def model_server(text: str = TEXT, between_ms: float = BETWEEN_MS, *options: str) -> Generator[str]:
    """A scripted model server in its own process; gives its address. `options` are more of tests.upstream's."""
    command = [sys.executable, "-m", "tests.upstream", "--text", text, "--between-ms", str(between_ms), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.wait(10)


def converse(url: str, collection: str) -> Conversation:
    """Streams an answer, then asks a follow-up in the same conversation, with the unmodified openai package."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    first = {"role": "user", "content": "What does the driver do when a marmot sits on the track?"}
    pieces: list[str] = []
    usage = 0
    for chunk in client.chat.completions.create(
        model=collection,
        messages=[first],  # type: ignore[list-item]
        stream=True,
        stream_options={"include_usage": True},
    ):
        if chunk.usage:
            usage = chunk.usage.completion_tokens
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
    said = "".join(pieces)
    second = {"role": "user", "content": "And if it does not move?"}
    answer = client.chat.completions.create(
        model=collection,
        messages=[first, {"role": "assistant", "content": said}, second],  # type: ignore[list-item]
    )
    extension = (answer.model_extra or {})["fleetfoot"]
    return Conversation(
        said, len(pieces), answer.choices[0].message.content or "", json.dumps(extension["query"]), usage
    )


def arrivals(url: str, collection: str) -> list[float]:
    """Seconds at which `curl -N` printed each event of a stream."""
    question = {"role": "user", "content": "What does the driver do when a marmot sits on the track?"}
    body = json.dumps({"model": collection, "stream": True, "messages": [question]})
    command = ["curl", "-sN", f"{url}/v1/chat/completions", "-H", "content-type: application/json", "-d", body]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    times = [time.perf_counter() for line in process.stdout if line.startswith("data: {")]
    if process.wait(30) != 0:
        raise RuntimeError(f"curl ended with status {process.returncode}")
    return times
