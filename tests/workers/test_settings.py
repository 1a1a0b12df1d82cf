"""How collections that chose nothing are cut, as the environment says it."""

from __future__ import annotations

import pytest

from pipeline.chunking import Chunking, Cut
from pipeline.errors import Misconfigured
from workers.assembly import ingest_options
from workers.settings import WorkerSettings


def settings(**given: object) -> WorkerSettings:
    return WorkerSettings(_env_file=None, **given)  # type: ignore[call-arg]  # pydantic's own


@pytest.mark.parametrize(
    ("given", "chunking"),
    [
        ({}, Chunking()),
        ({"chunker": "whole"}, Chunking(Cut.WHOLE, 8192, 0, 0)),
        ({"chunker": "tokens", "chunk_tokens": 64, "chunk_overlap": 16}, Chunking(Cut.TOKENS, 64, 16, 0)),
        ({"chunker": "headings"}, Chunking(Cut.HEADINGS, 200, 0, 0)),
    ],
)
def test_the_default_cut_is_what_the_settings_say(given: dict[str, object], chunking: Chunking) -> None:
    assert ingest_options(settings(**given)).chunking == chunking


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"chunker": "pages"}, "FLEETFOOT_CHUNKER .*'sentences'"),
        ({"chunk_tokens": 100, "chunk_overlap": 60}, "FLEETFOOT_CHUNK_OVERLAP .*0 to 50"),
        ({"chunk_tokens": 9000}, "FLEETFOOT_CHUNK_TOKENS .*8192"),
    ],
)
def test_what_cannot_work_names_the_variable(given: dict[str, object], says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        ingest_options(settings(**given))
