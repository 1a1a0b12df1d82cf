"""Evaluation sets in BEIR layout: corpus.jsonl(.gz), queries.jsonl(.gz), qrels/SPLIT.tsv."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SETS = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


@dataclass(frozen=True, slots=True)
class BeirSet:
    """`corpus` maps a document's id to (title, text); `qrels[query][document]` is a grade, judged queries only."""

    name: str
    corpus: dict[str, tuple[str, str]]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def present(name: str) -> bool:
    """Whether the set lies beside this checkout."""
    return (SETS / name / "qrels" / "test.tsv").is_file()


def read(name: str, split: str = "test") -> BeirSet:
    """Reads a set whole."""
    folder = SETS / name
    corpus = {row["_id"]: (row.get("title", ""), row["text"]) for row in _lines(folder / "corpus.jsonl.gz")}
    texts = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl.gz")}
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels" / f"{split}.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return BeirSet(name, corpus, {query: texts[query] for query in qrels}, qrels)


def _lines(file: Path) -> Iterator[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
