"""What serves is read again now and then, since a disk may lose a bit of a file that nobody has touched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from pipeline.clock import Lap, Stage
from pipeline.errors import Damaged, FleetfootError
from pipeline.lane import Lane
from pipeline.ports import GenerationRef
from retrieve.manifest import Manifest
from retrieve.segment import OpenSegments
from retrieve.serving import Generations
from retrieve.verifying import Verifier

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScrubOptions:
    """Everything that serves is read once in `every_seconds`, with `rest_seconds` after each megabyte, so that it takes
    a tenth of a core at most: 3 GB take half a minute."""

    every_seconds: float = 6 * 3600
    rest_seconds: float = 0.01


class Scrubber:
    """Scrubs in a lane of its own, and takes out of service what is found damaged."""

    def __init__(
        self,
        generations: Generations,
        verifier: Verifier,
        shared: OpenSegments,
        lane: Lane,
        options: ScrubOptions | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._generations = generations
        self._verifier = verifier
        self._shared = shared
        self._lane = lane
        self._options = options or ScrubOptions()
        self._sleep = sleep

    async def run(self) -> None:
        """Goes on until it is cancelled. A process that has just started has verified what it opened."""
        while True:
            await self._sleep(self._options.every_seconds)
            await self.scrub()

    async def scrub(self) -> None:
        """One round: whatever is held, and the stamps of what is gone."""
        for ref in self._generations.held():
            try:
                await self.verify(ref, Lap(Stage.ADMIT, 0.0, inf))
            except (FleetfootError, OSError) as error:  # damage has been told; all else is tried in the next round
                log.warning("%s@%s was read again: %s", ref.collection, ref.number, error)
        try:
            await self._lane.run(Lap(Stage.ADMIT, 0.0, inf), lambda _: self._verifier.forget_removed())
        except (FleetfootError, OSError) as error:
            log.debug("stamps of removed segments are still there: %s", error)

    async def verify(self, ref: GenerationRef, lap: Lap) -> None:
        """Reads one generation through. Raises Damaged when it has been taken out of service."""
        try:
            await self._lane.run(lap, lambda _: self._read(ref))
        except Damaged as error:
            await self._generations.found_damaged(ref, error)
            raise

    def _read(self, ref: GenerationRef) -> None:
        manifest = Manifest.read(ref)
        try:
            self._verifier.scrub(ref, manifest, partial(time.sleep, self._options.rest_seconds))
        except Damaged:
            for part in manifest.parts:
                self._shared.forget(manifest.folder(ref.folder, part))  # whoever opens them next verifies them
            raise
