"""Which candidates say the same, by what ingest has computed: content hashes, signatures and vectors."""

from __future__ import annotations

from pipeline.clock import Clock, Stage
from pipeline.errors import OutOfTime, Overloaded
from pipeline.lane import Lane
from pipeline.passages import Candidates, Degraded, Groups, Query

# Comparing 100 takes .14 ms, 200 of them .35. A lane costs more than that by itself: two turns of the event loop, in
# each of which every other request has its turn first.
IN_PLACE = 200


class DuplicateGrouper:
    """Groups all candidates while they are being reranked; a group is named by its first member in the fused order.

    Up to `in_place` candidates are compared where it is called, more of them in the lane.
    """

    def __init__(self, lane: Lane, *, in_place: int = IN_PLACE) -> None:
        self._lane = lane
        self._in_place = in_place

    async def group(self, query: Query, candidates: Candidates, clock: Clock) -> Groups:
        """Late or turned away, it gives up the near-duplicates: the packer still drops exact ones by content hash.

        A similarity above 1 asks for no grouping, and fewer than two candidates need none; neither takes a lap.
        """
        keys = [candidate.key for candidate in candidates.items]
        similarity = query.profile.pack.similarity
        if similarity > 1 or len(keys) < 2:
            return Groups({})
        try:
            async with clock.lap(Stage.DUPLICATES) as lap:
                if len(keys) <= self._in_place:
                    firsts = candidates.shelf.near_duplicates(keys, similarity)
                else:
                    firsts = await self._lane.run(lap, lambda _: candidates.shelf.near_duplicates(keys, similarity))
        except OutOfTime:
            return _exact_only("out_of_time")
        except Overloaded:
            return _exact_only("overloaded")
        return Groups({key: keys[first] for key, first in zip(keys, firsts, strict=True)})


def _exact_only(reason: str) -> Groups:
    return Groups({}, (Degraded(Stage.DUPLICATES, reason, "only exact duplicates were removed"),))
