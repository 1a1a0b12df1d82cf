"""A second level in a dict, which can be slow, away, or wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence


class FakeLevel:
    """Implements SecondLevel. While `gate` is closed it does not answer; `harm` changes what it gives out."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: OSError | None = None
        self.harm: Callable[[bytes], bytes | None] = lambda value: value
        self.asked = 0

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.asked += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [self.harm(self.kept[key]) if key in self.kept else None for key in keys]

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        self.kept.update(items)


def flipped(value: bytes) -> bytes:
    """The same with its last bit flipped."""
    return value[:-1] + bytes([value[-1] ^ 1])
