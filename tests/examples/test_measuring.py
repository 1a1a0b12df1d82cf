"""What the benchmark over the handbook's questions counts as an answer."""

from __future__ import annotations

import pytest

from benchmarks.handbook import ndcg, share
from tests.examples.handbook import Question


def asking(answer: str, kind: str = "single") -> Question:
    return Question("q", "?", answer, answerable=True, language="en", kind=kind, conversation=())


@pytest.mark.parametrize("text", ["It is KEPT for **60 days**.", "It is kept\nfor 60 days [1]."])
def test_an_answer_is_recognised_whatever_its_case_breaks_and_emphasis(text: str) -> None:
    assert share(asking("kept for 60 days"), [text]) == 1


def test_a_number_inside_another_is_no_answer() -> None:
    assert share(asking("23"), ["In 2023 it was 230."]) == 0
    assert share(asking("23"), ["child return: 23."]) == 1


def test_of_a_list_the_items_count_one_by_one() -> None:
    assert share(asking("Barley soup; Fondue; Rösti", "list"), ["fondue and rösti", "no soup"]) == pytest.approx(2 / 3)


def test_a_document_is_ranked_by_its_best_passage() -> None:
    assert ndcg({"a": 3, "b": 0}, ["b", "b", "b", "a"]) == pytest.approx(ndcg({"a": 3, "b": 0}, ["b", "a"]))
    assert ndcg({"a": 3}, []) == 0
