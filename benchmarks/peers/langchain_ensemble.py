"""LangChain's hybrid search as its documentation shows it: EnsembleRetriever over BM25Retriever and a FAISS store.

    python langchain_ensemble.py FOLDER MODEL [--words stemmed]

BM25Retriever is rank_bm25 underneath; as it comes it splits text at spaces and keeps every word. With `stemmed` it is
given a better way, lower-case words without stop words, stemmed, which is more exact, and faster too, since rank_bm25
goes through all passages once for each word of a query. The FAISS store is what
`FAISS.from_embeddings` makes, a flat index; vectors are given, and queries are encoded by HuggingFaceEmbeddings, which
is sentence-transformers.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_community.vectorstores.utils import DistanceStrategy
from langchain_huggingface import HuggingFaceEmbeddings
from pipe import serve
from splitting import stemmed

DEPTH = 100


def main() -> None:
    """Builds both indexes and answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="with passages.jsonl and vectors.npy")
    parser.add_argument("model", help="a sentence-transformers model, or a folder that holds one")
    parser.add_argument("--words", choices=("whitespace", "stemmed"), default="whitespace")
    parser.add_argument("--depth", type=int, default=DEPTH, help="candidates of each retriever")
    options = parser.parse_args()
    began = time.perf_counter()
    with (options.folder / "passages.jsonl").open() as lines:
        passages = [json.loads(line) for line in lines]
    texts = [f"{passage['title']}\n{passage['text']}" for passage in passages]
    places = [{"row": row} for row in range(len(texts))]
    words = {"preprocess_func": stemmed} if options.words == "stemmed" else {}
    lexical = BM25Retriever.from_texts(texts, metadatas=places, k=options.depth, **words)
    embeddings = HuggingFaceEmbeddings(
        model_name=options.model, model_kwargs={"device": "cpu"}, encode_kwargs={"normalize_embeddings": True}
    )
    vectors = np.load(options.folder / "vectors.npy")
    store = FAISS.from_embeddings(
        zip(texts, vectors, strict=True),
        embeddings,
        metadatas=places,
        distance_strategy=DistanceStrategy.MAX_INNER_PRODUCT,
    )
    dense = store.as_retriever(search_kwargs={"k": options.depth})
    ensemble = EnsembleRetriever(retrievers=[lexical, dense], weights=[0.5, 0.5], c=60)

    def search(query: str) -> tuple[list[int], dict[str, float]]:
        started = time.perf_counter()
        found = ensemble.invoke(query)
        return [document.metadata["row"] for document in found[: options.depth]], {
            "whole": time.perf_counter() - started
        }

    search("ready")
    serve(search, built=time.perf_counter() - began)


if __name__ == "__main__":
    main()
