"""Cleaning keeps meaning and lines, and nothing that cannot be seen."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.cleaning import clean, clean_line, joined_hyphens, unwrapped


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("ﬁne\u00a0 \tＡＢ  ｶﾞ", "fine AB ガ"),
        ("10² m, H₂O, 1½ cups, Acme™", "10² m, H₂O, 1½ cups, Acme™"),
        ("e\u0301", "é"),
        ("ＡＢＣ１２、每个星期六，好！（是）", "ABC12、每个星期六，好！（是）"),
        ("zero\u200bwidth \ufeffmark, so\u00adft, \u202ereversed\u202c", "zerowidth mark, soft, reversed"),
        ("hidden\U000e0041\U000e0042 tags and\ufe0f selectors", "hidden tags and selectors"),
        ("a\x00b\x07c\ud800d", "abcd"),
        ("one\r\ntwo\rthree\u2028four\u2029five\fsix", "one\ntwo\nthree\nfour\n\nfive\n\nsix"),
        ("a\n\n\n\n  \nb  ", "a\n\nb"),
        ("if x:\n\treturn  1", "if x:\n    return 1"),
        ("می\u200cخواهم क्\u200dष a\u200cb", "می\u200cخواهم क्\u200dष ab"),
    ],
)
def test_one_form_for_each_character_and_nothing_invisible(text, cleaned):
    assert clean(text) == cleaned


@given(st.text(max_size=200))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_cleaning_twice_changes_nothing_more(text):
    once = clean(text)
    assert clean(once) == once
    assert not [c for c in once if unicodedata.category(c) in {"Cc", "Cs"} and c != "\n"]
    assert once.encode("utf-8").decode("utf-8") == once


def test_a_title_is_one_line():
    assert clean_line(" A \n title\u200b ") == "A title"


def test_divided_words_are_joined_and_names_keep_their_hyphen():
    assert (
        joined_hyphens("reorgani-\nzation of the Baden-\nBaden pages 3-\n4")
        == "reorganization of the Baden-Baden pages 3-\n4"
    )


def test_only_full_lines_are_joined():
    wrapped = "This line is as long as a line can be here\nand goes on; it ends here, in lower case\nletters."
    assert unwrapped(wrapped) == wrapped.replace("\n", " ")
    for kept in (
        "Ann Example\n1 Road\nOslo",
        "- a list item that is quite long, really\n- another one of the same length, almost",
        "2019 1,200,000 1,340,000 1,560,000 1,780\n2020 1,200,000 1,340,000 1,560,000 1,780",
        "def function_with_a_long_name(argument) in\n    body_of_the_function_is_indented",
    ):
        assert unwrapped(kept) == kept


def test_wrapped_ideographs_are_joined_without_a_blank():
    assert (
        unwrapped("検索拡張生成は文書から答える仕組みであり、\n質問に答える。")
        == "検索拡張生成は文書から答える仕組みであり、質問に答える。"
    )
