"""Fetching a model from a hub, where one can be reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from huggingface_hub import HfApi, errors

from pipeline.errors import Misconfigured
from retrieve.model_folder import DESCRIBING, WEIGHTS

SOURCES = ("*.safetensors", "*.bin", "*.json", "*.txt", "*.model")  # what an export starts from


# The hub client hands through the errors of whichever HTTP client it is built on.
FAILURES: tuple[type[Exception], ...] = (cast("Any", errors).HTTPError, OSError, ValueError)


def download(repository: str, folder: Path, endpoint: str | None = None) -> Path:
    """Fetches the ready ONNX files of `owner/name` and what describes them, or, where there are none, the weights.

    Raises Misconfigured when there is no such repository or no hub within reach.
    """
    hub: Any = HfApi(endpoint=endpoint)
    try:
        wanted = chosen(hub.list_repo_files(repository))
        return Path(hub.snapshot_download(repository, local_dir=folder, allow_patterns=wanted))
    except FAILURES as error:
        raise Misconfigured(
            f"'{repository}' is no folder here and could not be fetched from a hub: {error}. Copy the repository to "
            "this machine by other means and add its folder."
        ) from error


def chosen(files: list[str]) -> list[str]:
    """Of a repository's files those to fetch: one set of ONNX weights in ModelFolder's order, never all of them."""
    ready = [name for name in WEIGHTS if name in files] or sorted(name for name in files if name.endswith(".onnx"))
    if not ready:
        return [*SOURCES, *DESCRIBING]
    return [ready[0], f"{ready[0]}_data", *DESCRIBING]
