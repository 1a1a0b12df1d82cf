"""What an answer cites is read off its text, with the places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.citations import Citation, citations
from tests.prompts import context_of

CONTEXT = context_of("one", "two", "three")


@pytest.mark.parametrize(
    ("answer", "numbers", "unknown"),
    [
        ("It is red [1].", (1,), ()),
        ("Red[2][1], again [2].", (2, 1), ()),
        ("Both [1, 3].", (1, 3), ()),
        ("All [1-3].", (1, 2, 3), ()),
        ("All [1–3] of it.", (1, 2, 3), ()),
        ("Wide 【2】 brackets.", (2,), ()),
        ("One too many [4].", (), (4,)),
        ("In the years [1990-2020] [1].", (1,), (1990, 2020)),
        ("No marks, but 1 and (2) and [x] and [].", (), ()),
        ("A link [1](https://example.org) is none.", (), ()),
        ("Code `a[1]` and\n```\nb[2]\n```\nthen [3].", (3,), ()),
        ("", (), ()),
        ("[" + "1" * 10_000 + "]", (), ()),
    ],
)
def test_marks_are_read(answer: str, numbers: tuple[int, ...], unknown: tuple[int, ...]) -> None:
    read = citations(answer, CONTEXT)
    assert read.numbers == numbers
    assert tuple(citation.number for citation in read.unknown) == unknown


def test_places_are_those_of_the_mark_in_the_text() -> None:
    answer = "Grün ist es [1, 2]."
    read = citations(answer, CONTEXT)
    assert read.marks == (Citation(1, 12, 18), Citation(2, 12, 18))
    assert answer[12:18] == "[1, 2]"


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.text("ab .\n", max_size=8), st.integers(1, 5)), max_size=6))
def test_every_mark_written_is_found_in_its_place(parts: list[tuple[str, int]]) -> None:
    answer = "".join(f"{text}[{number}]" for text, number in parts)
    read = citations(answer, CONTEXT)
    found = sorted((*read.marks, *read.unknown), key=lambda citation: citation.start)
    assert [citation.number for citation in found] == [number for _, number in parts]
    assert all(answer[citation.start : citation.end] == f"[{citation.number}]" for citation in found)
    assert all(citation.number <= 3 for citation in read.marks)
