"""`python -m workers parse` and `python -m workers encode`: one Celery worker, as `supervising.py` starts it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings

from celery.exceptions import SecurityWarning  # type: ignore[import-untyped]  # Celery has no types

from workers.settings import WorkerSettings
from workers.tasks import Role, run


def main() -> int:
    """Runs until SIGTERM, or until the process that holds the other end of standard input is gone."""
    settings = WorkerSettings.read()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("celery.app.trace", "celery.worker.strategy"):  # two lines for each task
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    # The warning is about pickled messages; ours are JSON, and other content is refused.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return run(settings, Role(sys.argv[1]))


def _end_with_parent() -> None:
    """A supervisor that was killed cannot say goodbye; the end of its pipe does."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
