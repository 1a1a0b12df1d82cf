"""Turn after turn, as a folder changes: one at a time, and with patience while the service is away."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing

from watchfiles import (
    Change,
    awatch,  # pyright: ignore[reportUnknownVariableType]  trio's events, if there were any
)

from fleetfoot.client import Refused
from fleetfoot.folder_files import Folder
from pipeline.errors import FleetfootError, Misconfigured, UpstreamFailed

TICK_MS = 1000  # between two looks at the clock while nothing changes
DEBOUNCE_MS, STEP_MS = 2000, 200  # what changes within a step belongs together, for no longer than the former
POLL_MS = 2000  # between two looks at a folder that tells of nothing
LOOK_AGAIN = 300.0  # seconds; an event may be lost, and a collection may be changed by others
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds before the next try while the service is away
PASSING = frozenset({429, 502, 503, 504})  # statuses that time mends

Changes = AsyncIterator[Collection[object]]


async def changes_below(folder: Folder, *, poll: bool) -> AsyncGenerator[Collection[object]]:
    """Each item is what has changed; nothing, once a second. What changes while nobody asks is in the next item."""

    def counts(_: Change, path: str) -> bool:
        return folder.counts(path)

    watching = awatch(
        folder.root,
        watch_filter=counts,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        force_polling=poll,
        poll_delay_ms=POLL_MS,
        ignore_permission_denied=True,
    )
    async with aclosing(watching):
        async for changes in watching:
            yield changes


async def keep_in_step(
    turn: Callable[[], Awaitable[bool]],
    changes: Changes,
    tell: Callable[[str], object],
    now: Callable[[], float] = time.monotonic,
) -> None:
    """A turn at once, after each change, and now and then; sooner when a turn says that it has left something.

    The service's being away or full is told once and waited out, a little longer each time. Raises what time does not
    mend.
    """
    due, rest, said = now(), FIRST_REST, ""
    async for changed in changes:
        if changed and not said:
            due = now()
        if now() < due:
            continue
        try:
            left = await turn()
        except (Misconfigured, UpstreamFailed, Refused) as error:
            patience = _patience(error)
            if patience is None:
                raise
            if str(error) != said:
                tell(f"{error} Trying again until it is back.")
            said, due, rest = str(error), now() + max(patience, rest), min(rest * 2, LONGEST_REST)
        else:
            if said:
                tell("The service is back.")
            said, rest = "", FIRST_REST
            due = now() + (FIRST_REST if left else LOOK_AGAIN)


def _patience(error: FleetfootError) -> float | None:
    """Seconds that the service asks for; None where waiting does not help."""
    if not isinstance(error, Refused):
        return 0.0
    return (error.retry_after or 0.0) if error.status in PASSING else None
