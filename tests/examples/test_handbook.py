"""The handbook and its questions keep what examples/README.md says about them."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from pypdf import PdfReader

from examples.build import BUILT, build
from tests.examples.handbook import EXAMPLES, HANDBOOK, documents, judgements, plain, questions, text_of


def test_at_least_forty_documents_cover_all_formats_and_stay_small() -> None:
    formats = Counter(path.suffix for path in documents().values())
    assert formats.total() >= 40
    assert set(formats) == {".md", ".txt", ".html", ".pdf", ".docx", ".csv", ".jsonl"}
    assert formats[".pdf"] >= 3
    assert formats[".docx"] >= 2
    assert formats[".csv"] >= 2
    assert sum(path.stat().st_size for path in documents().values()) < 600_000


def test_every_other_language_has_its_own_documents() -> None:
    folders = Counter(Path(name).parts[0] for name in documents())
    assert all(folders[language] >= 2 for language in ("de", "fr", "es", "ru", "zh", "ja"))


def test_there_are_duplicates_a_long_document_and_an_empty_one() -> None:
    files = documents()
    assert files["safety/first-aid.md"].read_bytes() == files["notices/first-aid-board.md"].read_bytes()
    assert len(text_of(files["safety/safety-manual.md"]).split()) > 3000
    assert files["notices/to-follow.md"].stat().st_size == 0
    assert 0 < files["notices/platform-3.txt"].stat().st_size < 20


@pytest.mark.parametrize(
    ("older", "newer", "says"),
    [
        ("operations/wind-limits-2023.md", "operations/wind-limits-2025.md", "replaces rule W-3 of 15 October 2023"),
        ("tariffs/refunds-2024.md", "tariffs/refunds-2026.md", "replaces rule T-7 of 1 April 2024"),
    ],
)
def test_a_newer_edition_says_what_it_replaces_and_is_graded_above_it(older: str, newer: str, says: str) -> None:
    assert says in text_of(HANDBOOK / newer)
    grades = {(each.query, each.document): each.grade for each in judgements()}
    answered_by_newer = [query for (query, document), grade in grades.items() if document == newer and grade == 3]
    assert answered_by_newer
    assert all(grades.get((query, older), 0) <= 1 for query in answered_by_newer)


def test_pdfs_have_several_pages_with_a_running_header() -> None:
    for name in (name for name in BUILT if name.endswith(".pdf")):
        pages = [page.extract_text() for page in PdfReader(HANDBOOK / name).pages]
        assert len(pages) >= 2
        assert len({page.splitlines()[0] for page in pages}) == 1


def test_some_pdfs_have_an_outline_and_some_have_none() -> None:
    outlined = {bool(PdfReader(HANDBOOK / name).outline) for name in BUILT if name.endswith(".pdf")}
    assert outlined == {True, False}


def test_every_line_of_a_jsonl_document_is_an_object_with_text() -> None:
    for path in HANDBOOK.rglob("*.jsonl"):
        assert all(json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines())


def test_building_again_gives_the_committed_text(tmp_path: Path) -> None:
    for path in build(tmp_path):
        committed = HANDBOOK / path.relative_to(tmp_path)
        assert text_of(path) == text_of(committed)


def test_building_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in build(tmp_path / "first")]
    assert first == [path.read_bytes() for path in build(tmp_path / "second")]


def test_sixty_questions_of_every_kind_are_asked() -> None:
    asked = questions()
    kinds = Counter(question.kind for question in asked)
    assert len({question.id for question in asked}) == 60
    assert kinds["follow-up"] == 20
    assert kinds["unanswerable"] == 8
    assert set(kinds) == {"single", "list", "follow-up", "unanswerable"}
    assert {"en", "de", "fr", "es", "ru", "zh", "ja"} == {question.language for question in asked}


def test_follow_ups_alone_have_earlier_turns_and_are_short() -> None:
    for question in questions():
        assert bool(question.conversation) == (question.kind == "follow-up")
        if question.conversation:
            assert len(question.text.split()) <= 8


def test_only_answerable_questions_have_an_answer_and_judgements() -> None:
    judged = {each.query for each in judgements()}
    for question in questions():
        assert question.answerable == (question.kind != "unanswerable")
        assert question.answerable == (question.answer is not None)
        assert question.answerable == (question.id in judged)


def test_judgements_name_questions_and_documents_that_exist_once_each() -> None:
    known = {question.id for question in questions()}
    pairs = [(each.query, each.document) for each in judgements()]
    assert len(set(pairs)) == len(pairs)
    for each in judgements():
        assert each.query in known
        assert each.document in documents()
        assert each.grade in {1, 2, 3}


def test_every_document_of_the_top_grade_holds_the_reference_answer() -> None:
    files = documents()
    answers = {question.id: question.answer for question in questions()}
    for each in judgements():
        if each.grade == 3:
            text = plain(text_of(files[each.document]))
            missing = [item for item in (answers[each.query] or "").split("; ") if plain(item) not in text]
            assert not missing, f"{each.query}: {each.document} does not hold {missing}"


def test_a_list_spread_over_documents_is_complete_when_they_are_put_together() -> None:
    files = documents()
    for question in questions():
        best = [each for each in judgements() if each.query == question.id and each.grade >= 2]
        if question.answer and not any(each.grade == 3 for each in best):
            together = plain("\n".join(text_of(files[each.document]) for each in best))
            assert all(plain(item) in together for item in question.answer.split("; "))


def test_the_demo_asks_what_its_documents_answer() -> None:
    demo = tomllib.loads((EXAMPLES / "demo.toml").read_text(encoding="utf-8"))
    for asked in (demo, demo["follow_up"]):
        assert asked["question"] in {question.text for question in questions()}
        assert plain(asked["answer"]) in plain(text_of(HANDBOOK / asked["document"]))
