"""`python -m fleetfoot` and `fleetfoot`: finds the rooms, bounds the native thread pools, hands over to the command.

The rooms (`retrieve`, `ingest`, …) are plain packages beside this folder in a checkout and below `fleetfoot/app` in a
wheel. Either place is put on the path of this process and of its children alone, so that installing fleetfoot never
claims names such as `api` or `context` for anyone else. (docs/adr/0001-packaging.md)
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

NATIVE_POOLS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"),
)


def rooms() -> Path:
    """The folder in which the rooms lie: `fleetfoot/app` in a wheel, the repository's root in a checkout."""
    here = Path(__file__).resolve().parent
    return here / "app" if (here / "app" / "pipeline").is_dir() else here.parent


def prepare() -> None:
    """Puts the rooms on the path and sets the native pools, which read their size once, when they are imported.

    One thread each: concurrency comes from lanes outside. Two OpenMP threads for four callers cost half the
    throughput at 2.7 times the CPU (design notes), so a pool is only ever widened on purpose.
    """
    folder = str(rooms())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    inherited = os.environ.get("PYTHONPATH", "")
    if folder not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (folder, inherited) if part)
    for pool in NATIVE_POOLS:
        os.environ.setdefault(pool, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def main() -> None:
    """The command's entry point."""
    prepare()
    from fleetfoot.command import app  # after the path is right

    try:
        app()
    finally:
        gc.freeze()  # nothing is left to collect at exit: with numba loaded that took 1.0 s of CPU, and now takes 0.1


if __name__ == "__main__":
    main()
