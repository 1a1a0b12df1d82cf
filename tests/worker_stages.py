"""Stages that real worker processes open in tests (FLEETFOOT_STAGES=tests.worker_stages): small, but in a real child.

numpy is imported where the real stages import native code, so that a test can see in which processes it is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from assembly import Encoding, IngestOptions, Reading
from tests.fakes_ingest import HashEncoder, LineChunker, OneChunker, PlainParser, PlainWriter


@contextmanager
def open_reading(options: IngestOptions) -> Generator[Reading, None, None]:
    _load_native_code()
    gate = options.storage.data / "gate"
    yield Reading(PlainParser(gate), OneChunker(LineChunker()))


@contextmanager
def open_encoding(options: IngestOptions) -> Generator[Encoding, None, None]:
    _load_native_code()
    yield Encoding(HashEncoder(), PlainWriter())


@contextmanager
def open_compacting(options: IngestOptions) -> Generator[PlainWriter, None, None]:
    _load_native_code()
    yield PlainWriter()


def _load_native_code() -> None:
    import numpy as np

    assert np.__name__ in sys.modules
