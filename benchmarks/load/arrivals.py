"""When requests are sent: a Poisson process, as many independent people make, drawn from a seed.

`random.Random.random` gives the same numbers on every machine and version, so a schedule can be made anew anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import log
from random import Random


def poisson(rate: float, seconds: float, seed: int) -> list[float]:
    """Instants in [0, seconds), `rate` a second on average, with exponential gaps between them."""
    instants: list[float] = []
    for instant in _instants(rate, Random(f"{seed} arrivals")):
        if instant >= seconds:
            return instants
        instants.append(instant)
    return instants


def warm_up_for(rate: float, seconds: float, seed: int) -> list[float]:
    """Instants in [-seconds, 0), drawn apart, so that a longer warm-up leaves the measured instants as they are."""
    early = poisson(rate, seconds, _apart(seed))
    return [instant - seconds for instant in early]


def warm_up_of(rate: float, requests: int, seed: int) -> list[float]:
    """That many instants before 0, drawn apart."""
    instants = list(islice(_instants(rate, Random(f"{_apart(seed)} arrivals")), requests))
    return [-instant for instant in reversed(instants)]


def _instants(rate: float, chance: Random) -> Iterator[float]:
    instant = 0.0
    while True:
        instant -= log(1.0 - chance.random()) / rate
        yield instant


def _apart(seed: int) -> int:
    return ~seed
