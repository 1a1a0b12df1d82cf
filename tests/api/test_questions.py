"""Which questions lean on what was said before."""

from __future__ import annotations

import pytest

from api.questions import LONGEST_ASIDE, question

BEFORE = "How many days of leave do new employees have?"


@pytest.mark.parametrize(
    "text",
    [
        "And in Germany?",
        "Why?",
        "Does it also hold for people who work part-time in the warehouse?",
        "What about the employees who joined in the middle of the year?",
        "Und wie ist es für die Leute im Lager in der Probezeit?",
        "Gilt diese Regel auch für Aushilfen, die nur am Wochenende arbeiten?",
        "Et pour les personnes qui travaillent seulement le week-end ?",
        "¿Y para las personas que trabajan solo los fines de semana?",
        "А сколько их бывает у сотрудников на испытательном сроке?",
        "那德国的员工呢？他们每年有多少天的带薪假期？",
        "それはドイツでも同じですか、それとも別の規則がありますか",
        "unlimited?",
        "How early must people ask?",
        "When does the colleague who has been here longest get a new one?",
    ],
)
def test_a_short_question_or_one_that_points_back_takes_earlier_turns_along(text: str) -> None:
    asked = question(["Hello there", BEFORE, text], 2000)
    assert asked.text == text
    assert [(aside.text, aside.weight) for aside in asked.asides] == [(BEFORE, 0.5), ("Hello there", 0.25)]


@pytest.mark.parametrize(
    "text",
    [
        "How long is the notice period for permanent employees in Austria?",
        "Wie lang ist die Kündigungsfrist für festangestellte Mitarbeiter?",
        "Quelle est la durée du préavis pour les employés permanents ?",
        "请问奥地利正式员工的通知期限一般有多长时间",
    ],
)
def test_a_question_that_stands_alone_is_searched_alone(text: str) -> None:
    assert question([BEFORE, text], 2000).asides == ()


def test_a_first_question_has_nothing_to_lean_on() -> None:
    assert question(["Why?"], 2000).asides == ()


def test_what_is_too_long_keeps_its_beginning_and_its_end() -> None:
    asked = question(["a" * 5000, "b" * 1500 + "it" + "c" * 1500 + " why"], 2000)
    assert len(asked.text) <= 2001
    assert asked.text.startswith("b")
    assert asked.text.endswith("why")
    (aside,) = question(["a" * 5000, "why?"], 2000).asides
    assert len(aside.text) <= LONGEST_ASIDE + 1
