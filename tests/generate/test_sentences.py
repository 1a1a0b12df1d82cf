"""Passages as statements: what can be quoted, and where it begins and ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generate.sentences import readable, statements


def said(text: str, language: str | None = None) -> list[str]:
    return [text[one.start : one.end] for one in statements(text, language)]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("It rains. It pours! Does it? Yes.", "en", ["It rains.", "It pours!", "Does it?", "Yes."]),
        ("Dr. Vell waits. See p. 4 for more.", "en", ["Dr. Vell waits.", "See p. 4 for more."]),
        ("The answer is no. Ask again.", "en", ["The answer is no.", "Ask again."]),
        ("It costs 4.50 crowns, e.g. for dogs.", "en", ["It costs 4.50 crowns, e.g. for dogs."]),
        ('He said "Stop!" and left.', "en", ['He said "Stop!" and left.']),
        ("J. R. Vell built it. It stands.", "en", ["J. R. Vell built it.", "It stands."]),
        ("The limit is 30. Beyond it you pay.", "en", ["The limit is 30.", "Beyond it you pay."]),
        (
            "Sie gilt bis 30. Juni. Danach nicht, z. B. im Juli.",
            "de",
            ["Sie gilt bis 30. Juni.", "Danach nicht, z. B. im Juli."],
        ),
        ("列车三点发车。四点到达！真的吗？", "zh", ["列车三点发车。", "四点到达！", "真的吗？"]),
        ("彼は「はい。」と言った。終わり。", "ja", ["彼は「はい。」", "と言った。", "終わり。"]),
        ("ट्रेन चलती है। वह रुकती है।", "hi", ["ट्रेन चलती है।", "वह रुकती है।"]),
        ("متى يصل القطار؟ يصل غدا.", "ar", ["متى يصل القطار؟", "يصل غدا."]),
    ],
)
def test_sentences_end_where_their_language_ends_them(text: str, language: str, expected: list[str]) -> None:
    assert said(text, language) == expected


def test_list_items_stand_alone_without_their_marks() -> None:
    assert said("- First thing\n- Second thing\n3. Third thing\n> a word") == [
        "First thing",
        "Second thing",
        "Third thing",
        "a word",
    ]


def test_a_wrapped_line_goes_on() -> None:
    text = "The rack lies between the rails and stands\nseventy millimetres above them. It is greased."
    assert [readable(one) for one in said(text)] == [
        "The rack lies between the rails and stands seventy millimetres above them.",
        "It is greased.",
    ]


def test_a_short_line_before_a_capital_is_a_line_of_its_own() -> None:
    assert said("By train\nOn foot\nBy the old mule path.") == ["By train", "On foot", "By the old mule path."]


def test_a_short_line_right_above_a_sentence_names_it_as_a_heading_does() -> None:
    found = statements("Opening hours\nThe office opens at eight. It closes at noon.\n\nCash only.")
    assert [one.heading for one in found] == ["Opening hours"] * 3
    assert said("Opening hours\nThe office opens at eight.") == ["The office opens at eight."]


def test_headings_are_not_quoted_and_name_what_follows() -> None:
    text = "## Dogs\n\nThey need a ticket.\n\n## Bicycles ##\nFour at most."
    found = statements(text)
    assert [one.heading for one in found] == ["Dogs", "Bicycles"]
    assert said(text) == ["They need a ticket.", "Four at most."]


def test_a_row_is_one_statement_whatever_it_holds() -> None:
    text = "from: Larkstead; to: Dr. Vell St. Halt. End; fare: 4\nfrom: Millbrace; to: Larkstead; fare: 9"
    assert said(text) == text.split("\n")


def test_rows_of_tables_lose_their_bars_and_the_rule_is_left_out() -> None:
    text = "| Level | Meaning |\n|---|---|\n| 4 | line closed |\n| 5 | all closed |"
    assert [readable(one) for one in said(text)] == ["4 – line closed", "5 – all closed"]


def test_the_first_row_of_a_table_names_the_columns_and_is_not_quoted() -> None:
    text = "Level | Meaning\n4 | line closed\n5 | all closed\n\nThe warden decides."
    assert said(text) == ["4 | line closed", "5 | all closed", "The warden decides."]
    assert [one.columns for one in statements(text)] == ["Level | Meaning", "Level | Meaning", ""]


@pytest.mark.parametrize(
    "text", ["Telephone | 0700 5512\nTelegrams | none\nLetters | none", "By rail | daily\nOn foot | never"]
)
def test_a_first_row_that_may_be_more_than_names_is_quoted_like_the_others(text: str) -> None:
    assert said(text) == text.split("\n")


def test_a_fragment_is_told_from_a_sentence() -> None:
    assert [one.finished for one in statements("- two shovels\n- They hang here.")] == [False, True]


def test_what_is_shown_has_lost_the_marks_of_markdown_and_no_word() -> None:
    shown = readable(
        "**Dogs** wear a [lead](https://example.org/lead) and\n  a `muzzle`, _always_; 2 * 3 * 4 and snake_case_names."
    )
    assert shown == "Dogs wear a lead and a muzzle, always; 2 * 3 * 4 and snake_case_names."


@given(st.text("aB3 .!?。\n|-#*:;,()\"'é", max_size=200))
def test_statements_of_any_text_lie_in_order_and_apart(text: str) -> None:
    end = 0
    for one in statements(text):
        assert end <= one.start < one.end <= len(text)
        assert text[one.start : one.end].strip()
        end = one.end
