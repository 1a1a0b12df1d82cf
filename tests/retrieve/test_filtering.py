"""Masks against a loop over dictionaries; and what they promise beside being right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.caching import CacheCounts
from pipeline.errors import InvalidInput
from pipeline.filters import Comparison, Compound, Filter, Op, canonical
from pipeline.passages import Metadata, Passage, Scalar
from retrieve.attribute_building import ATTRIBUTES, AttributesBuilder
from retrieve.attributes import Attributes
from retrieve.filtering import check, is_known, mask_in, mask_of
from tests.fakes_shelf import make_passage
from tests.filter_model import allowed, known, makes_sense

DATES = (
    "2025-01-31",
    "2025-01-31T00:00:00Z",
    "2025-01-31T02:30:00+02:00",
    "2024-02-29 12:00:00",
    "2025-06-01T08:00:00.5Z",
)
TEXTS = ("", "a", "A", "ä", "hr", "\U0001f600", "￿", "2025", "0")
NUMBERS = (0, 1, -1, 1.0, 0.5, -2.5, 2**53, 2**53 + 1, float(2**53), 10**30, 1e300, -1e-300)
SCALARS: st.SearchStrategy[Scalar] = st.sampled_from((*DATES, *TEXTS, *NUMBERS, True, False))
KEYS = st.sampled_from(("year", "tags", "due", "page", "title", "source", "nowhere"))
LABELS = st.frozensets(st.sampled_from(("hr", "board", "it")), max_size=2)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3).map(tuple))
METADATA: st.SearchStrategy[Metadata] = st.dictionaries(KEYS.filter(lambda key: key != "nowhere"), VALUES, max_size=4)


@dataclass(frozen=True)
class Part:
    """A segment, as far as filters see it."""

    attributes: Attributes


def part(*passages: Passage) -> Part:
    builder = AttributesBuilder()
    for passage in passages:
        builder.add(passage)
    return Part(Attributes.read(pyarrow.BufferReader(builder.files()[ATTRIBUTES]), len(passages)))


@st.composite
def documents(draw: st.DrawFn) -> list[Passage]:
    """Some documents of some passages each; a passage may have a page of its own."""
    found: list[Passage] = []
    for number in range(draw(st.integers(0, 5))):
        metadata, access = draw(METADATA), tuple(draw(LABELS))
        title, language = draw(st.sampled_from(TEXTS)), draw(st.sampled_from((None, "de", "en")))
        for ordinal in range(draw(st.integers(1, 3))):
            page = draw(st.sampled_from((None, 1, 2)))
            fields = {"metadata": metadata, "access": access, "title": title, "language": language, "page": page}
            found.append(make_passage(f"d{number}", ordinal, "text", **fields))
    return found


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    op = draw(st.sampled_from(Op))
    value = tuple(draw(st.lists(SCALARS, max_size=3))) if op in {Op.IN, Op.NIN} else draw(SCALARS)
    return Comparison(draw(KEYS), op, value)


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    comparisons(),
    lambda inner: st.builds(
        Compound, st.sampled_from(("and", "or")), st.lists(inner, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=6,
)


def masks(parts: list[Part], asked: Filter | None, labels: frozenset[str] = frozenset()) -> list[bool]:
    """Over all rows of all parts; None is all of a part."""
    found = mask_of(parts, asked, labels)
    return [
        bool(value)
        for each, mask in zip(parts, found, strict=True)
        for value in (np.ones(each.attributes.rows) if mask is None else mask)
    ]


@given(documents(), st.integers(0, 15), FILTERS, LABELS)
def test_what_a_filter_leaves_is_what_a_loop_over_dictionaries_leaves(
    passages: list[Passage], cut: int, asked: Filter, labels: frozenset[str]
) -> None:
    parts = [part(*passages[:cut]), part(*passages[cut:])]
    if makes_sense(asked, known(passages, labels)):
        assert masks(parts, asked, labels) == allowed(passages, asked, labels)
    else:
        with pytest.raises(InvalidInput):
            mask_of(parts, asked, labels)
    assert masks(parts, None, labels) == allowed(passages, None, labels)


@given(documents(), FILTERS, LABELS)
def test_a_filter_that_says_the_same_otherwise_is_the_same_to_the_cache(
    passages: list[Passage], asked: Filter, labels: frozenset[str]
) -> None:
    parts = [part(*passages)]
    again = turned(asked)
    assert canonical(again) == canonical(asked)
    try:
        first = mask_of(parts, asked, labels)
    except InvalidInput:
        return
    assert is_known(parts, again, labels)
    assert mask_of(parts, again, labels)[0] is first[0]


def turned(asked: Filter) -> Filter:
    """With its parts and values in the opposite order, the first of each twice."""
    if isinstance(asked, Compound):
        parts = tuple(map(turned, reversed(asked.parts)))
        return Compound(asked.op, (*parts, parts[0]))
    if isinstance(asked.value, tuple):
        return Comparison(asked.key, asked.op, (*reversed(asked.value), *asked.value[:1]), "elsewhere")
    return asked


YEARS = [make_passage(f"d{year}", 0, "text", metadata={"year": year}) for year in (2023, 2024, 2025)]
EQUAL = (("1", 1), (1, True), ("true", True), (1, 1.5))


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_values_that_are_not_equal_are_never_one_filter(one: Scalar, other: Scalar) -> None:
    assert canonical(Comparison("a", Op.EQ, one)) != canonical(Comparison("a", Op.EQ, other))
    assert canonical(Comparison("a", Op.IN, (one, other))) != canonical(Comparison("a", Op.IN, (one,)))


def test_an_unknown_field_is_named_with_its_place_and_those_that_there_are() -> None:
    asked = Compound("and", (Comparison("year", Op.EQ, 2024), Comparison("yaer", Op.EQ, 2024, "filters.filters[1]")))
    with pytest.raises(InvalidInput, match=r"'yaer'.*year \(numbers\)") as refused:
        mask_of([part(*YEARS)], asked, frozenset())
    assert refused.value.field == "filters.filters[1].key"


@pytest.mark.parametrize(
    ("op", "value", "says", "where"),
    [
        (Op.EQ, "2024", 'holds numbers, and "2024" is text', "filters.value"),
        (Op.GT, "2024-01-01", 'holds numbers, and "2024-01-01" is a date', "filters.value"),
        (Op.NIN, (2024, True), "holds numbers, and true is a truth value", "filters.value[1]"),
        (Op.LT, False, "no order", "filters.value"),
    ],
)
def test_a_value_of_another_kind_than_the_field_ever_holds_is_refused(
    op: Op, value: Scalar | tuple[Scalar, ...], says: str, where: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        mask_of([part(*YEARS)], Comparison("year", op, value), frozenset())
    assert refused.value.field == where


def test_a_field_of_one_segment_is_known_in_all() -> None:
    parts = [part(make_passage("old", 0, "text")), part(*YEARS)]
    assert masks(parts, Comparison("year", Op.GTE, 2024)) == [False, False, True, True]
    assert masks(parts, Comparison("year", Op.NE, 2024)) == [True, True, False, True]


@pytest.mark.parametrize("parts", [[], [part()]], ids=["no segment", "an empty one"])
def test_where_nothing_is_every_filter_is_right(parts: list[Part]) -> None:
    assert masks(parts, Comparison("anything", Op.GT, 3)) == []


def test_an_error_names_no_field_of_documents_that_the_caller_may_not_see() -> None:
    secret = make_passage("s", 0, "text", metadata={"salary": 2100}, access=("hr",))
    parts = [part(*YEARS, secret)]
    for labels, names in ((frozenset({"hr"}), True), (frozenset({"it"}), False), (frozenset[str](), False)):
        with pytest.raises(InvalidInput) as refused:
            mask_of(parts, Comparison("nothing", Op.EQ, 1), labels)
        assert ("salary" in str(refused.value)) is names
    with pytest.raises(InvalidInput, match="There is no field 'salary'"):
        mask_of(parts, Comparison("salary", Op.GT, 0), frozenset())
    assert masks(parts, Comparison("salary", Op.GT, 0), frozenset({"hr"})) == [False, False, False, True]


def test_a_mask_is_computed_once_for_all_who_may_see_the_same() -> None:
    parts, counts = [part(*YEARS)], CacheCounts()
    asked = Comparison("year", Op.GTE, 2024)
    for labels in (frozenset({"hr"}), frozenset({"it"}), frozenset[str]()):
        mask_of(parts, asked, labels, counts)
    assert (counts.computed, counts.hits) == (1, 2)
    assert is_known(parts, None, frozenset()), "there is nothing to leave out"
    closed = [part(*YEARS, make_passage("s", 0, "text", access=("hr",)))]
    mask_of(closed, None, frozenset({"hr"}), counts)
    assert not is_known(closed, None, frozenset()), "the mask is another for who may see less"


def test_masks_are_kept_within_their_bytes_and_the_one_not_asked_for_longest_goes_first() -> None:
    builder = AttributesBuilder()
    for passage in YEARS:
        builder.add(passage)
    kept = Attributes.read(pyarrow.BufferReader(builder.files()[ATTRIBUTES]), 3, mask_bytes=700)
    first, second, third = (Comparison("year", Op.EQ, year) for year in (2023, 2024, 2025))
    for asked in (first, second, first, third):
        mask_of([Part(kept)], asked, frozenset())
    assert [is_known([Part(kept)], asked, frozenset()) for asked in (first, second, third)] == [True, False, True]


def test_equal_passages_make_equal_files_whatever_came_before() -> None:
    contents = []
    for _ in range(2):
        builder = AttributesBuilder()
        for passage in YEARS:
            builder.add(passage)
        contents.append(builder.files())
    assert contents[0] == contents[1]


def test_a_segment_of_an_earlier_version_is_open_to_all_and_says_that_it_has_no_fields(tmp_path: Path) -> None:
    parts = [Part(Attributes.open(tmp_path, 3))]
    assert mask_of(parts, None, frozenset()) == [None]
    with pytest.raises(InvalidInput, match="fleetfoot refresh"):
        check(Comparison("year", Op.EQ, 2024), parts, frozenset())


def test_a_segment_alone_is_asked_for_what_only_others_know() -> None:
    lacking = part(make_passage("old", 0, "text"))
    with pytest.raises(InvalidInput):
        mask_of([lacking], Comparison("year", Op.EQ, 2024), frozenset())
    found = mask_in(lacking, Comparison("year", Op.EQ, 2024), frozenset())
    assert found is not None
    assert found.tolist() == [0]
