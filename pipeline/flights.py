"""Single flight over a batching lane: what several ask for at the same time is computed once, for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

from pipeline.batching import BatchingLane, Place
from pipeline.caching import CacheCounts
from pipeline.clock import Lap

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


class Flight(Generic[Item, Result]):
    """An item on its way, and how many wait for it."""

    __slots__ = ("place", "waiters")

    def __init__(self, place: Place[Item, Result]) -> None:
        self.place = place
        self.waiters = 0


class Flights(Generic[Item, Result]):
    """Belongs to one event loop. Whoever asks for an item that is on its way rides along and takes no place in line.

    A flight stands in line where the most urgent of its riders would, and is worth computing until the last one's
    deadline. Who leaves takes nothing away from the others; when the last one leaves it is dropped, if it has not
    begun. `landed` is told of every result, also of one that nobody waits for any more. When not `single`, everybody
    has a flight of their own.
    """

    def __init__(
        self,
        lane: BatchingLane[Item, Result],
        *,
        landed: Callable[[Item, Result], None],
        counts: CacheCounts,
        single: bool = True,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._lane = lane
        self._landed = landed
        self._counts = counts
        self._single = single
        self._now = now
        self._flying: dict[Item, Flight[Item, Result]] = {}

    def __contains__(self, item: object) -> bool:
        """Whether it is on its way, and can be shared."""
        return item in self._flying

    async def take(self, items: Sequence[Item], lap: Lap) -> dict[Item, Result]:
        """The result of each item, none given twice. Raises what the lane raises; leaves all flights when cancelled.

        The time until the last of them was begun is added to `lap.waited`.
        """
        joined = self._now()
        flights = self._board(items, lap)
        try:
            # Shielded: a caller who leaves must not take away the result from those who share the flight.
            return {item: await asyncio.shield(flight.place.future) for item, flight in flights.items()}
        finally:
            begun = [flight.place.started for flight in flights.values()]
            latest = max(self._now() if started is None else started for started in begun)
            lap.waited += max(latest - joined, 0.0)
            for item, flight in flights.items():
                self._alight(item, flight)

    def _board(self, items: Sequence[Item], lap: Lap) -> dict[Item, Flight[Item, Result]]:
        flights = {item: self._flying[item] for item in items if item in self._flying}
        fresh = [item for item in items if item not in flights]
        for item, place in zip(fresh, self._lane.join(fresh, lap.deadline, lap.priority) if fresh else (), strict=True):
            flights[item] = Flight(place)
            if self._single:
                self._flying[item] = flights[item]
            place.future.add_done_callback(partial(self._lands, item, flights[item]))
        self._counts.computed += len(fresh)
        self._counts.joined += len(items) - len(fresh)
        for flight in flights.values():
            flight.waiters += 1
            self._lane.hasten(flight.place, lap.deadline, lap.priority)
        return flights

    def _alight(self, item: Item, flight: Flight[Item, Result]) -> None:
        flight.waiters -= 1
        if flight.waiters == 0 and not flight.place.future.done() and self._lane.leave(flight.place):
            self._ended(item, flight)

    def _lands(self, item: Item, flight: Flight[Item, Result], future: asyncio.Future[Result]) -> None:
        self._ended(item, flight)
        if not future.cancelled() and future.exception() is None:
            self._landed(item, future.result())

    def _ended(self, item: Item, flight: Flight[Item, Result]) -> None:
        if self._flying.get(item) is flight:
            del self._flying[item]
