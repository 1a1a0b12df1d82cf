"""The plain alternative, in an environment of its own: rank_bm25, sentence-transformers and a flat FAISS index.

What a good engineer writes in an afternoon: the libraries as their documentation shows them, reciprocal rank fusion
over 100 candidates of each leg, nothing slowed down on purpose. Reads one JSON query a line on standard input, writes
one JSON answer a line: the ids, best first, and the milliseconds of each stage.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from pathlib import Path

import faiss
import numpy as np
import Stemmer
from rank_bm25 import BM25Okapi
from sentence_transformers import SentenceTransformer

DEPTH = 100
RRF_K = 60
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)


def main() -> None:
    """Builds the indexes, says `ready`, answers until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("model", help="a sentence-transformers model, or a folder that holds one")
    parser.add_argument("vectors", type=Path, help="where document vectors are kept between runs")
    options = parser.parse_args()

    with gzip.open(options.corpus, "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    ids = [document["_id"] for document in documents]
    texts = [f"{document.get('title', '')}\n{document['text']}" for document in documents]
    stem = Stemmer.Stemmer("english").stemWords

    bm25 = BM25Okapi([stem(words(text)) for text in texts], k1=1.5, b=0.75)
    model = SentenceTransformer(options.model, device="cpu")
    model.max_seq_length = 256
    if options.vectors.exists():
        vectors = np.load(options.vectors)
    else:
        vectors = model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        np.save(options.vectors, vectors)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    reply({"ready": len(ids)})

    for line in sys.stdin:
        query = json.loads(line)["query"]
        start = time.perf_counter()
        scores = bm25.get_scores(stem(words(query)))
        lexical = np.argsort(scores)[::-1][:DEPTH]
        after_lexical = time.perf_counter()
        vector = model.encode([query], normalize_embeddings=True, show_progress_bar=False)
        after_encoding = time.perf_counter()
        dense = index.search(vector, DEPTH)[1][0]
        after_dense = time.perf_counter()
        fused: dict[int, float] = {}
        for leg in (lexical, dense):
            for rank, row in enumerate(leg, 1):
                fused[int(row)] = fused.get(int(row), 0.0) + 1 / (RRF_K + rank)
        best = sorted(fused, key=lambda row: -fused[row])[:DEPTH]
        end = time.perf_counter()
        stages = {
            "lexical": after_lexical - start,
            "encode": after_encoding - after_lexical,
            "dense": after_dense - after_encoding,
            "fuse": end - after_dense,
        }
        reply({"ids": [ids[row] for row in best], "ms": {name: 1000 * took for name, took in stages.items()}})


def words(text: str) -> list[str]:
    """Lower-case words of two characters or more, without stop words, as bm25s splits them."""
    return [word for word in re.findall(r"(?u)\b\w\w+\b", text.lower()) if word not in STOP_WORDS]


def reply(value: object) -> None:
    """One JSON object a line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
