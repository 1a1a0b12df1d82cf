"""Tells receivers of webhooks that jobs have ended, in a thread of its own: one that is slow holds up nothing else."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ingest.webhooks import Webhooks
from pipeline.errors import Unavailable

_log = logging.getLogger(__name__)


@contextmanager
def delivering(webhooks: Webhooks, every: float) -> Generator[None, None, None]:
    """Looks every so many seconds what is due, until the block ends; an attempt that is under way then is broken off.

    That costs nothing: its row says when the next one is due.
    """
    with asyncio.Runner() as runner:
        loop, work = runner.get_loop(), _deliver(webhooks, every)
        task = loop.create_task(work)

        def run() -> None:
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)

        thread = threading.Thread(target=run, name="webhooks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join()


async def _deliver(webhooks: Webhooks, every: float) -> None:
    while True:
        made = 0
        try:
            made = await webhooks.deliver_due()
        except Unavailable as error:
            _log.warning("Webhooks wait: %s", error.detail)
        except Exception:  # noqa: BLE001  a thread is a door: what nobody foresaw must not end it unheard
            _log.exception("Webhooks could not be sent; they are tried again.")
        if not made:  # else more may be due
            await asyncio.sleep(every)
