"""BM25 three ways over the same passages: rank_bm25, bm25s with numba, and ours.

    python -m benchmarks.lexical [--passages 10000 100000] [--queries 200]

Passages are drawn by a seed from a Zipf distribution; queries take their words from a passage, as questions do. The
three answer each query in turn, in one process and on one thread. Printed: building, median, p99, and ratios to ours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from retrieve.lexical import LexicalIndex
from retrieve.postings import PostingsBuilder

SEED = 20261130
VOCABULARY = 200_000
LENGTH = 80
K = 100


def drawn(passages: int, queries: int) -> tuple[list[list[str]], list[list[str]]]:
    """Passages of some 80 words, and queries of 3 to 10 words of one passage each."""
    draw = np.random.default_rng(SEED)
    popularity = 1 / np.arange(1, VOCABULARY + 1)
    words = draw.choice(VOCABULARY, (passages, LENGTH), p=popularity / popularity.sum())
    lengths = draw.integers(LENGTH // 4, LENGTH, passages)
    texts = [[f"w{word}" for word in row[:length]] for row, length in zip(words.tolist(), lengths, strict=True)]
    asked = [
        list(draw.choice(texts[draw.integers(passages)], int(draw.integers(3, 11)), replace=False))
        for _ in range(queries)
    ]
    return texts, [[str(word) for word in query] for query in asked]


def built(texts: list[list[str]]) -> dict[str, tuple[float, Callable[[list[str]], list[int]]]]:
    """Each way's seconds to build and its search: words to the best rows."""
    ways: dict[str, tuple[float, Callable[[list[str]], list[int]]]] = {}

    began = time.perf_counter()
    builder = PostingsBuilder()
    for words in texts:
        builder.add(" ".join(words), None)
    index = LexicalIndex(builder.build())
    ways["ours"] = (
        time.perf_counter() - began,
        lambda query: index.search(dict.fromkeys(query, 1.0), K).rows.tolist(),
    )
    index.warm_up()

    began = time.perf_counter()
    sparse = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numba")
    sparse.index(texts, show_progress=False)
    sparse.activate_numba_scorer()
    ways["bm25s, numba"] = (
        time.perf_counter() - began,
        lambda query: sparse.retrieve([query], k=K, show_progress=False, n_threads=1)[0][0].tolist(),
    )

    began = time.perf_counter()
    okapi = BM25Okapi(texts, k1=1.5, b=0.75)
    ways["rank_bm25"] = (
        time.perf_counter() - began,
        lambda query: np.argsort(-okapi.get_scores(query), kind="stable")[:K].tolist(),
    )
    return ways


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints one table per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    asked = parser.parse_args(arguments)
    for passages in asked.passages:
        texts, queries = drawn(passages, asked.queries)
        ways = built(texts)
        for _, search in ways.values():
            search(queries[0])
        took: dict[str, list[float]] = {name: [] for name in ways}
        shared: dict[str, list[float]] = {name: [] for name in ways}
        for query in queries:
            found: dict[str, set[int]] = {}
            for name, (_, search) in ways.items():
                began = time.perf_counter()
                rows = search(query)
                took[name].append(time.perf_counter() - began)
                found[name] = set(rows)
            for name, rows in found.items():
                shared[name].append(len(rows & found["ours"]) / max(len(found["ours"]), 1))
        ours = np.median(took["ours"])
        print(f"{passages} passages, {len(queries)} queries, the best {K}")
        print(f"  {'':14}{'build s':>9}{'median ms':>11}{'p99 ms':>10}{'to ours':>9}{'shared with ours':>18}")
        for name, (building, _) in ways.items():
            median, last = np.median(took[name]), np.quantile(took[name], 0.99)
            print(
                f"  {name:14}{building:9.1f}{median * 1e3:11.3f}{last * 1e3:10.3f}{median / ours:9.1f}"
                f"{np.mean(shared[name]):18.3f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
