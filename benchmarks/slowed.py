"""`fleetfoot serve` with an encoder that is slowed on purpose, and on demand without admission: a benchmark's service.

`python -m benchmarks.slowed --token-ms 1` sleeps that long for each padded token, in the thread that owns the encoder,
as a model that is so much slower would take: about 12 ms for a question, four times that for four. `--plain` lets
everybody in: lines without a bound and without foresight, no easing and no refusal. Everything else is read from the
environment, as ever.
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
    """An encoder that takes `each` seconds more for each padded token."""

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
        time.sleep(self.each * len(rows) * max(len(row) for row in rows))
        return self.encoder.encode_ids(rows)


def main() -> None:
    """Serves until it is asked to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--token-ms", type=float, default=1.0)
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    settings = Settings.read()
    options, door = request_options(settings), settings.door(own_version())
    if asked.plain:
        options = replace(options, line=UNBOUNDED, foresight=False)
        door = replace(door, load=LoadOptions(inside=UNBOUNDED, steps=(inf, inf, inf, inf, inf)))
    slowed = asked.token_ms / 1000
    uvloop.run(serving(settings, options, door, around_encoder=lambda encoder: SlowedEncoder(encoder, slowed)))


if __name__ == "__main__":
    main()
