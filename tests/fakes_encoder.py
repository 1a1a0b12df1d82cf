"""An encoder that needs no model: every text gets a direction of its own, drawn from its words."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from tests.generations import DIMENSIONS, EMBEDDER


class FakeEncoder:
    """Implements TextEncoder. While `gate` is closed it computes nothing; `batches` keeps what it was given."""

    fingerprint = EMBEDDER
    dimensions = DIMENSIONS
    max_tokens = 256

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.batches: list[list[list[int]]] = []

    def tokenize(self, text: str) -> list[int]:
        return [crc32(word.encode()) for word in text.split()]

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        self.batches.append([list(row) for row in rows])
        self.begun.set()
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        return np.stack([self.direction(row) for row in rows])

    def direction(self, row: Sequence[int]) -> np.ndarray:
        drawn = sum((np.random.default_rng(word).standard_normal(DIMENSIONS) for word in row), np.zeros(DIMENSIONS))
        return (drawn / max(float(np.linalg.norm(drawn)), 1e-9)).astype(np.float32)

    def vector(self, text: str) -> np.ndarray:
        return self.direction(self.tokenize(text))
