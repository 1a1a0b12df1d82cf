"""`fleetfoot serve` with an encoder that is slowed on purpose, and on demand without admission: a benchmark's service.

`python -m benchmarks.slowed --each-ms 12` sleeps that long for each text, in the thread that owns the encoder, so that
a batch of four takes four times as long. `--plain` lets everybody in: lines without a bound and without foresight, no
easing and no refusal. Everything else is read from the environment, as ever.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import uvloop
from numpy.typing import NDArray

from api.running import request_options, serving
from api.settings import Settings
from assembly import own_version
from pipeline.load import LoadOptions
from retrieve.query_encoder import TextEncoder

UNBOUNDED = 1_000_000


@dataclass(frozen=True, slots=True)
class SlowedEncoder:
    """An encoder that takes `each` seconds more for each text."""

    encoder: TextEncoder
    each: float

    @property
    def fingerprint(self) -> str:
        return self.encoder.fingerprint

    @property
    def dimensions(self) -> int:
        return self.encoder.dimensions

    @property
    def max_tokens(self) -> int:
        return self.encoder.max_tokens

    def tokenize(self, text: str) -> list[int]:
        return self.encoder.tokenize(text)

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        time.sleep(self.each * len(rows))
        return self.encoder.encode_ids(rows)


def main() -> None:
    """Serves until it is asked to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each-ms", type=float, default=12.0)
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    settings = Settings.read()
    options, door = request_options(settings), settings.door(own_version())
    if asked.plain:
        options = replace(options, line=UNBOUNDED, foresight=False)
        door = replace(door, load=LoadOptions(inside=UNBOUNDED, steps=(inf, inf, inf, inf, inf)))
    slowed = asked.each_ms / 1000
    uvloop.run(serving(settings, options, door, around_encoder=lambda encoder: SlowedEncoder(encoder, slowed)))


if __name__ == "__main__":
    main()
