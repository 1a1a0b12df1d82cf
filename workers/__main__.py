"""`python -m workers parse` and `python -m workers encode`: one Celery worker, as `supervising.py` starts it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from workers.settings import WorkerSettings
from workers.tasks import Role, run


def main() -> int:
    """Runs until SIGTERM, or until the process that holds the other end of standard input is gone."""
    settings = WorkerSettings.read()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return run(settings, Role(sys.argv[1]))


def _end_with_parent() -> None:
    """A supervisor that was killed cannot say goodbye; the end of its pipe does."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
