"""XQuAD as a test of answering and of declining: the same questions with their paragraph there, and with it taken away.

    python -m benchmarks.xquad

Paragraphs of one language are one collection, searched and packed by the service's own stages. A question with its
paragraph can be answered; without it, when the article's other paragraphs stay, it is as hard to decline as a real
one on which the documents say nothing. Every tenth question is asked. Vectors are kept under `.data/quality`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.quality import JudgedSet, retriever, vectors
from context.packing import BudgetPacker
from generate.extractive import extract
from pipeline.clock import Budget, Clock
from pipeline.passages import Caller, Candidate, Candidates, Context, Groups, Passage, Query, Ranked, Ranking, Sizes
from pipeline.profile import Profile
from retrieve.encoder import OnnxEncoder, OnnxPassageEncoder
from retrieve.hybrid import HybridRetriever
from retrieve.model_library import ModelLibrary

ROOT = Path(__file__).resolve().parents[1]
XQUAD = ROOT / ".." / "shared" / "data" / "xquad-multi"
LANGUAGES = ("en", "de", "es", "ru", "zh", "ar")
EVERY = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its accepted answers, and two contexts: as found, and as found when its paragraph is not there."""

    language: str
    question: str
    answers: tuple[str, ...]
    context: Context
    without: Context


def asked(language: str, *, first: int = 0) -> list[Asked]:
    """Every tenth question of a language, beginning with number `first`, as the service's stages would see it."""
    names, passages = _paragraphs(language)
    questions = [row for row in _rows("queries") if row["metadata"]["lang"] == language][first::EVERY]
    judged = JudgedSet(f"xquad-{language}", tuple(passages), {}, {})
    encoder = OnnxEncoder.open(ModelLibrary(ROOT / ".data" / "models").add("default"))
    rows = vectors(OnnxPassageEncoder(encoder, threads=2), judged, ROOT / ".data" / "quality")
    with (
        tempfile.TemporaryDirectory() as folder,
        retriever(judged, encoder, rows, Path(folder)) as searching,
        asyncio.Runner() as runner,
    ):
        return [runner.run(_seen(searching, judged.name, row, names)) for row in questions]


async def _seen(searching: HybridRetriever, collection: str, row: dict[str, Any], names: list[str]) -> Asked:
    query = Query(row["text"], Caller(), (collection,), Profile())
    found = await searching.retrieve(query, Clock(Budget()))
    gold = names.index(row["metadata"]["gold_doc"])
    without = replace(found, items=tuple(_moved_up(found, gold)))
    return Asked(
        row["metadata"]["lang"],
        row["text"],
        tuple(row["metadata"]["answers"]),
        _packed(query, found),
        _packed(query, without),
    )


def _moved_up(found: Candidates, gold: int) -> Iterator[Candidate]:
    """All but one, at the ranks that they would have had without it."""
    taken = {hit.leg: hit.rank for item in found.items if item.key == gold for hit in item.hits}
    for item in found.items:
        if item.key != gold:
            hits = (replace(hit, rank=hit.rank - (hit.rank > taken.get(hit.leg, hit.rank))) for hit in item.hits)
            yield replace(item, hits=tuple(hits))


def _packed(query: Query, found: Candidates) -> Context:
    ranking = Ranking(tuple(Ranked(item, item.score) for item in found.items))
    return BudgetPacker().pack(query, found, ranking, Groups({}), Sizes({}))


def _paragraphs(language: str) -> tuple[list[str], list[Passage]]:
    rows = [row for row in _rows("corpus") if row["_id"].startswith(f"{language}-")]
    passages = [
        Passage(
            id=f"{row['_id']}:0",
            document_id=row["_id"],
            ordinal=0,
            text=row["text"],
            tokens=len(row["text"]) // (1 if language == "zh" else 5),
            content_hash=f"{place:032x}",
            source=row["_id"],
            title=row.get("title", ""),
            language=language,
        )
        for place, row in enumerate(rows)
    ]
    return [row["_id"] for row in rows], passages


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(XQUAD / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def main() -> None:
    """A line a language: how often the answer is quoted, and what is declined without and with the paragraph."""
    print(f"{'':4}{'asked':>6}{'in context':>12}{'quoted':>8}{'declined without':>18}{'with':>6}")
    for language in LANGUAGES:
        rows = asked(language)
        extracts = [extract(row.question, row.context) for row in rows]
        quoted = [_held(row, [quote.text for quote in found.quotes]) for row, found in zip(rows, extracts, strict=True)]
        there = [_held(row, [item.text for item in row.context.items]) for row in rows]
        rightly = [not extract(row.question, row.without).quotes for row in rows]
        wrongly = [not found.quotes for found in extracts]
        shares = f"{mean(there):12.2f}{mean(quoted):8.2f}{mean(rightly):18.2f}{mean(wrongly):6.2f}"
        print(f"{language:4}{len(rows):6}{shares}")


def _held(row: Asked, texts: list[str]) -> bool:
    return any(answer in " ".join(texts) for answer in row.answers)


if __name__ == "__main__":
    main()
