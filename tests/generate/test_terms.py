"""Terms, and the languages of questions."""

from __future__ import annotations

import pytest

from generate.languages import LATIN, REFUSALS, STOP_WORDS, language_of, refusal_in
from generate.terms import affinity, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Über-Größe 4.5", ["uber", "grosse", "4", "5"]),
        ("où sont-ils", ["ou", "sont", "ils"]),
        ("東京駅の時計", ["東京", "京駅", "時計"]),
        ("スキー場まで", ["スキー", "場"]),
        ("日出专列7点", ["日出", "出专", "专列", "7", "点"]),
        ("القطار", ["قطار"]),
        ("कितनी गाड़ियाँ", ["कितनी", "गाड़ियाँ"]),
        ("รถไฟ", ["รถไ", "ถไฟ"]),
    ],
)
def test_terms_are_what_a_script_can_be_compared_by(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return", "returned"),
        ("dog", "dogs"),
        ("cancel", "cancellation"),
        ("urlaub", "jahresurlaub"),
        ("книга", "книги"),
    ],
)
def test_words_of_one_kind_are_related_both_ways(one: str, other: str) -> None:
    assert 0 < affinity(one, other) == affinity(other, one) < 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("car", "cardinal"), ("cat", "dog"), ("1999", "1998"), ("12", "120"), ("日出", "日落"), ("in", "inn")],
)
def test_words_that_only_look_alike_are_not(one: str, other: str) -> None:
    assert affinity(one, other) == 0


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What does a dog cost?", "en"),
        ("Was kostet ein Hund?", "de"),
        ("Combien coûte le billet pour un chien ?", "fr"),
        ("¿Cuánto cuesta el billete?", "es"),
        ("Quanto costa il biglietto per un cane?", "it"),
        ("Hoeveel kost een hond?", "nl"),
        ("Ile kosztuje bilet dla psa?", "pl"),
        ("Giá vé cho chó là bao nhiêu?", "vi"),
        ("Köpek için bilet ne kadar?", "tr"),
        ("Сколько стоит билет?", "ru"),
        ("Скільки коштує квиток і де?", "uk"),
        ("日出专列几点发车？", "zh"),
        ("定員は何名ですか。", "ja"),
        ("표는 얼마입니까?", "ko"),
        ("كم سعر التذكرة؟", "ar"),
        ("टिकट कितने का है?", "hi"),
        ("ตั๋วราคาเท่าไร", "th"),
        ("Πόσο κάνει το εισιτήριο;", "el"),
        ("brake test interval", "en"),
    ],
)
def test_a_question_is_refused_in_its_own_language(question: str, language: str) -> None:
    assert language_of(question) == language
    assert refusal_in(language) == REFUSALS[language]


def test_every_language_that_is_told_can_be_refused_in() -> None:
    assert set(LATIN) <= set(STOP_WORDS)
    assert set(STOP_WORDS) <= set(REFUSALS)
