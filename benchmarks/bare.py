"""Our own stages called one after another in a loop: no HTTP, no lanes, no clocks, no event loop.

    python -m benchmarks.bare DATA_FOLDER COLLECTION

What a request costs at least, on one thread: the encoder, the two searches, fusing, and reading the best ten passages.
Asked over a pipe, as the peers are.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from assembly import StorageOptions, embedder
from benchmarks.peers.pipe import serve
from ingest.catalog import Catalog
from pipeline.passages import Caller, Query
from pipeline.profile import Profile
from retrieve.encoder import EncoderOptions, OnnxEncoder
from retrieve.fusion import fuse
from retrieve.generation import Generation
from retrieve.hybrid import HybridOptions, search_terms, search_vector
from retrieve.shelf import GenerationShelf
from retrieve.verifying import Verifier

TOP_K = 10


def main() -> None:
    """Opens the current generation and answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("collection")
    options = parser.parse_args()
    storage = StorageOptions(options.data)
    began = time.perf_counter()
    encoder = OnnxEncoder.open(embedder(storage, "default"), EncoderOptions(fast_queries=True))  # as the service
    with Catalog.open(storage.catalog()) as catalog:
        ref = catalog.current("default", options.collection)
    assert ref is not None
    generation = Generation.open(ref, embedder=encoder.fingerprint, verifier=Verifier(options.data / "stamps"))
    shelf = GenerationShelf((generation,))
    for segment in shelf.segments:
        segment.lexical.warm_up()
        segment.dense.warm_up()
    profile, caller = Profile(), Caller()
    depth, most_terms = profile.search.candidates, HybridOptions().most_terms

    def search(text: str) -> tuple[list[int], dict[str, float]]:
        started = time.perf_counter()
        query = Query(text, caller, (options.collection,), profile)
        lexical = search_terms(query, (generation,), depth, most_terms)
        after_lexical = time.perf_counter()
        vector = encoder.encode_ids([encoder.tokenize(text)])[0]
        after_encoding = time.perf_counter()
        dense = search_vector(vector, shelf.segments, depth)
        after_dense = time.perf_counter()
        fused = fuse([dense] if lexical.found is None else [lexical.found, dense], profile.search)
        rows = [candidate.key for candidate in fused]
        _ = shelf.passages(rows[:TOP_K])
        return rows, {
            "lexical": after_lexical - started,
            "encode": after_encoding - after_lexical,
            "dense": after_dense - after_encoding,
            "fuse": time.perf_counter() - after_dense,
        }

    search("ready")
    serve(search, built=time.perf_counter() - began)


if __name__ == "__main__":
    main()
