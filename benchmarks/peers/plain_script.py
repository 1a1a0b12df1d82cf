"""A plain script of good parts: bm25s on numba, sentence-transformers, FAISS, reciprocal rank fusion.

    python plain_script.py FOLDER MODEL [--index hnsw]

Each library as its documentation shows it. Text is split by `bm25s.tokenize` with its English stop words and a stemmer;
retrieval runs on bm25s's fastest backend. FAISS has the flat index that its guide begins with, or HNSW32 with
efSearch 128, a stronger variant. The fused best ten are handed out as texts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import bm25s
import faiss
import numpy as np
import Stemmer
from pipe import serve
from sentence_transformers import SentenceTransformer

DEPTH = 100
RRF_K = 60
TOP_K = 10


def main() -> None:
    """Builds the indexes and answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="with passages.jsonl and vectors.npy")
    parser.add_argument("model", help="a sentence-transformers model, or a folder that holds one")
    parser.add_argument("--index", choices=("flat", "hnsw"), default="flat")
    options = parser.parse_args()
    began = time.perf_counter()
    with (options.folder / "passages.jsonl").open() as lines:
        passages = [json.loads(line) for line in lines]
    texts = [f"{passage['title']}\n{passage['text']}" for passage in passages]
    stemmer = Stemmer.Stemmer("english")
    lexical = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numba")
    lexical.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    lexical.activate_numba_scorer()
    model = SentenceTransformer(options.model, device="cpu")
    vectors = np.load(options.folder / "vectors.npy")
    index = flat(vectors) if options.index == "flat" else graph(vectors, options.folder / "hnsw.faiss")

    def search(query: str) -> tuple[list[int], dict[str, float]]:
        started = time.perf_counter()
        tokens = bm25s.tokenize(query, stopwords="en", stemmer=stemmer, show_progress=False)
        by_words = lexical.retrieve(tokens, k=DEPTH, show_progress=False, return_as="documents")[0]
        after_lexical = time.perf_counter()
        vector = model.encode([query], normalize_embeddings=True, show_progress_bar=False)
        after_encoding = time.perf_counter()
        by_vectors = index.search(vector, DEPTH)[1][0]
        after_dense = time.perf_counter()
        scores: dict[int, float] = {}
        for leg in (by_words.tolist(), by_vectors.tolist()):
            for rank, row in enumerate(leg, 1):
                scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:DEPTH]
        _ = [texts[row] for row in best[:TOP_K]]
        return best, {
            "lexical": after_lexical - started,
            "encode": after_encoding - after_lexical,
            "dense": after_dense - after_encoding,
            "fuse": time.perf_counter() - after_dense,
        }

    search("ready")
    serve(search, built=time.perf_counter() - began)


def flat(vectors: np.ndarray) -> faiss.Index:
    """Exact search, by as many threads as there are cores."""
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def graph(vectors: np.ndarray, kept: Path) -> faiss.Index:
    """A graph of 32 links, kept between runs, since building it takes minutes."""
    if kept.exists():
        index = faiss.read_index(str(kept))
    else:
        index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 80
        index.add(vectors)
        faiss.write_index(index, str(kept))
    index.hnsw.efSearch = 128
    return index


if __name__ == "__main__":
    main()
