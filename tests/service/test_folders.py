"""A collection of the real service follows a folder."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from tests.running_service import MARKS, Api, answered, command, retrieved, sources

pytestmark = MARKS


async def follow(folder: Path, url: str, *options: str, status: int = 0) -> dict[str, Any]:
    done = await asyncio.to_thread(command, "sync", str(folder), "-c", "trips", "--json", *options, "--url", url)
    assert done.returncode == status, done.stderr
    told: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return told


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        file = folder / f"{name}.md"
        file.write_text(text)
        hour_ago = time.time() - 3600 + len(text)
        os.utime(file, (hour_ago, hour_ago))


async def test_what_changes_in_a_folder_changes_what_is_found(empty_api: Api, tmp_path: Path) -> None:
    tmp_path /= "trips"
    tmp_path.mkdir()
    write(tmp_path, ferry="The ferry leaves at six.", tram="The tram leaves at seven.", bus="The bus leaves at eight.")
    async with empty_api.client() as client:
        assert (await follow(tmp_path, empty_api.url))["counts"] == {"published": 3}
        write(tmp_path, ferry="The ferry leaves at noon now.", train="The train leaves at nine.")
        (tmp_path / "tram.md").unlink()
        await follow(tmp_path, empty_api.url, status=4)
        told = await follow(tmp_path, empty_api.url, "--yes")
        assert (told["counts"], told["removed"]) == ({"published": 2}, ["trips/tram.md"])
        found = await retrieved(client, "when does it leave", "trips", rerank={"depth": 0}, top_k=10)
        assert sorted(sources(found)) == ["trips/bus.md", "trips/ferry.md", "trips/train.md"]
        assert "The ferry leaves at noon now." in [passage["text"] for passage in found["passages"]]
        narrow = {"type": "eq", "key": "synced_from", "value": "trips"}
        assert len(sources(await retrieved(client, "leave", "trips", filters=narrow, top_k=10))) == 3
        assert (await follow(tmp_path, empty_api.url))["jobs"] == []
        listed = await answered(client, "GET", "/v1/collections/trips/documents")
        assert {each["metadata"]["synced_from"] for each in listed["data"]} == {"trips"}
