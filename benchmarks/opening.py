"""Opens the current generation of a data folder in a process of its own and says how long it took.

    python -m benchmarks.opening DATA_FOLDER COLLECTION

Prints JSON: seconds of opening (checking the manifest, verifying by content or by stamp, mapping), and of warming up.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from assembly import StorageOptions, embedder
from ingest.catalog import Catalog
from retrieve.generation import Generation
from retrieve.lexical_kernel import kernel
from retrieve.verifying import Verifier


def main() -> None:
    """Opens it once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("collection")
    options = parser.parse_args()
    storage = StorageOptions(options.data)
    fingerprint = embedder(storage, "default").fingerprint
    with Catalog.open(storage.catalog()) as catalog:
        ref = catalog.current("default", options.collection)
    assert ref is not None
    kernel()
    began = time.perf_counter()
    generation = Generation.open(ref, embedder=fingerprint, verifier=Verifier(options.data / "stamps"))
    opened = time.perf_counter()
    for segment in generation.segments:
        segment.lexical.warm_up()
        segment.dense.warm_up()
    print(json.dumps({"open": opened - began, "warm_up": time.perf_counter() - opened}))


if __name__ == "__main__":
    main()
