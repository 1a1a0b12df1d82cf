"""What a text's terms are, in every script, and what a query shares with documents in several languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieve.analysis import Analyzer, QueryAnalyzer, _patterns, _without_apostrophes, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop", ["don", "stop"]),
        ("l’homme d'État", ["homme", "état"]),
        ("JOHN'S C++ vitamin D", ["john", "c", "vitamin", "d"]),
        ("snake_case x-ray 3.14", ["snake", "case", "x", "ray", "3", "14"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ﬁne ＡＢＣ ①", ["fine", "abc", "1"]),
        ("café cafe\u0301", ["café", "café"]),
        ("İstanbul ISTANBUL", ["istanbul", "istanbul"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("東京都", ["東京", "京都"]),
        ("猫", ["猫"]),
        ("カタカナ ｶﾀｶﾅ", ["カタ", "タカ", "カナ", "カタ", "タカ", "カナ"]),
        ("Windows10を使う", ["windows10", "を使", "使う"]),
        ("북한의 수도", ["북한", "한의", "수도"]),
        ("กินข้าว", ["กิน", "นข้", "ข้า", "าว"]),
        ("… — !!", []),
        ("", []),
    ],
)
def test_words_are_folded_runs_of_letters_and_pairs_in_unspaced_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_cut_for_ascii_finds_what_the_long_way_finds(text: str) -> None:
    assert words(text) == _without_apostrophes(_patterns().word.findall(text.lower()))


@given(st.text())
def test_any_text_has_words_without_white_space_and_their_words_are_themselves(text: str) -> None:
    for word in words(text):
        assert word
        assert not any(character.isspace() for character in word)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "The houses were burning", ["hous", "were", "burn"]),
        ("de", "die Häuser der Menschen", ["haus", "mensch"]),
        ("fr", "les maisons de l'homme", ["maison", "homm"]),
        ("ru", "дома и люди", ["дом", "люд"]),
        ("sw", "the houses", ["the", "houses"]),
        (None, "the houses", ["the", "houses"]),
    ],
)
def test_a_known_language_loses_its_stop_words_and_endings(
    language: str | None, text: str, expected: list[str]
) -> None:
    assert Analyzer(language).terms(text) == expected


@pytest.mark.parametrize("language", ["en", "de", "fr", "ru", "zh", None])
def test_a_document_is_found_by_its_own_words(language: str | None) -> None:
    document = "The houses burn; die Häuser brennen, les maisons brûlent, дома горят 房子着火"
    terms = set(Analyzer(language).terms(document))
    assert terms <= QueryAnalyzer([language]).terms(document).keys() | Analyzer(language).stop_words


def test_a_query_meets_documents_in_every_language_of_the_collection() -> None:
    terms = QueryAnalyzer(["en", "de", None]).terms("Häuser houses")
    assert {"häuser", "haus", "hous", "houses"} == terms.keys()


def test_a_term_that_several_languages_yield_is_not_counted_twice() -> None:
    assert QueryAnalyzer(["en", "de", None]).terms("tram tram 42") == {"tram": 2.0, "42": 1.0}


def test_the_function_words_of_the_querys_own_language_never_reach_another_languages_documents() -> None:
    assert QueryAnalyzer(["de", "en"]).terms("the price of the ticket").keys() == {"price", "pric", "ticket"}
    assert "die" in QueryAnalyzer(["de", "en"]).terms("how did they die in the war and when")


@pytest.mark.parametrize("text", ["", "?!", "the of and"])
def test_a_query_of_signs_and_stop_words_has_no_terms(text: str) -> None:
    assert QueryAnalyzer(["en"]).terms(text) == {}


def test_a_collection_without_languages_is_searched_by_plain_words() -> None:
    assert QueryAnalyzer([]).terms("The Houses") == {"the": 1.0, "houses": 1.0}
