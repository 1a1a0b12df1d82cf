"""Lexical search finds words in every script: the same 240 paragraphs in twelve languages, one collection of all."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from retrieve.analysis import QueryAnalyzer
from retrieve.lexical import LexicalIndex
from retrieve.postings import PostingsBuilder

SET = Path(__file__).parents[2] / "../shared/data/xquad-multi"


def lines(name: str) -> list[dict]:
    with gzip.open(SET / name, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    """By language the share of questions whose paragraph is among the first ten."""
    if not SET.is_dir():
        pytest.skip("../shared/data/xquad-multi is not here")
    documents = lines("corpus.jsonl.gz")
    languages = [document["_id"].split("-")[0] for document in documents]
    builder = PostingsBuilder()
    for document, language in zip(documents, languages, strict=True):
        builder.add(f"{document['title']}\n{document['text']}", language)
    index = LexicalIndex(builder.build())
    analyzer = QueryAnalyzer(Counter(languages))
    asked: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for question in lines("queries.jsonl.gz")[::20]:
        language = question["metadata"]["lang"]
        rows = index.search(analyzer.terms(question["text"]), 10).rows
        asked[language] += 1
        answered[language] += question["metadata"]["gold_doc"] in {documents[row]["_id"] for row in rows}
    return {language: answered[language] / count for language, count in asked.items()}


@pytest.mark.parametrize("language", "ar de el en es hi ro ru th tr vi zh".split())
def test_a_question_finds_its_paragraph_by_its_words(found: dict[str, float], language: str) -> None:
    assert found[language] > 0.9
