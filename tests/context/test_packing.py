"""Packing: never over the budget but for one source alone, no duplicates, numbered from 1 in ranked order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.joining import overlap
from context.packing import BudgetPacker, PackOptions
from pipeline.clock import Stage
from pipeline.passages import Candidates, Context, Degraded, Dropped, Groups, Ranking, Sizes
from pipeline.profile import Pack
from rerank.merging import as_fused
from tests.fakes_shelf import FakeShelf, asked, candidates_on, make_passage, ranked_on, shelf_of

steady = settings(deadline=None, derandomize=True)
HEADER = 3
PACKER = BudgetPacker(PackOptions(header_tokens=HEADER))


def packed(
    shelf: FakeShelf, keys: list[int], pack: Pack, *, of: dict[int, int] | None = None, blind: bool = False
) -> Context:
    """Packs the keys in this order; `blind` is when grouping ran out of time."""
    candidates, ranking, groups, sizes = ranked_on(shelf, keys)
    if of is not None:
        groups = Groups(of)
    if blind:
        groups = Groups({}, (Degraded(Stage.DUPLICATES, "out_of_time"),))
    return PACKER.pack(asked(pack=pack), candidates, ranking, groups, sizes)


def keys_in(context: Context) -> list[int]:
    return [cited.ranked.candidate.key for cited in context.items]


@st.composite
def shelves(draw: st.DrawFn) -> FakeShelf:
    """Up to 12 passages in up to 3 documents, some with the same text."""
    places = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), unique=True, min_size=1, max_size=12))
    return FakeShelf(
        [
            make_passage(f"d{document}", ordinal, f"p{draw(st.integers(0, 8))}" + " word" * draw(st.integers(0, 30)))
            for document, ordinal in places
        ]
    )


@steady
@given(st.data())
def test_the_promises_of_packing(data: st.DataObject) -> None:
    shelf = data.draw(shelves())
    count = len(shelf._passages)
    keys = data.draw(st.permutations(range(count)))
    pack = Pack(
        top_k=data.draw(st.integers(0, 6)),
        token_budget=data.draw(st.integers(0, 90)),
        join_neighbours=data.draw(st.booleans()),
    )
    similar = shelf.near_duplicates(keys, 1.0)
    of = {key: keys[first] for key, first in zip(keys, similar, strict=True)}
    blind = data.draw(st.booleans())
    context = packed(shelf, keys, pack, of=of, blind=blind)
    inside = [passage for cited in context.items for passage in cited.passages]

    assert len(inside) <= pack.top_k
    assert context.tokens == sum(cited.tokens for cited in context.items)
    assert context.tokens <= pack.token_budget or len(inside) == 1
    assert bool(inside) == (pack.top_k > 0)
    assert len({passage.content_hash for passage in inside}) == len(inside)
    assert [cited.number for cited in context.items] == list(range(1, len(context.items) + 1))
    places = [keys.index(key) for key in keys_in(context)]
    assert places == sorted(places)
    assert len(inside) + len(context.dropped) == count
    if not blind:
        assert sorted(shelf.read) == sorted(keys[places] for places in _places(shelf, keys, inside))
    for dropped in context.dropped:
        if dropped.reason == "duplicate":
            assert dropped.instead is not None
            assert keys.index(dropped.instead) < keys.index(dropped.key)
    if context.tokens > pack.token_budget:
        assert context.degraded[-1].reason == "budget"


def _places(shelf: FakeShelf, keys: list[int], inside: list[object]) -> list[int]:
    return [place for place, key in enumerate(keys) if shelf._passages[key] in inside]


@steady
@given(st.lists(st.integers(1, 20), min_size=1, max_size=10), st.integers(4, 80), st.integers(1, 6))
def test_without_duplicates_it_takes_what_an_obvious_loop_takes(lengths: list[int], budget: int, top_k: int) -> None:
    expected, left = [], budget
    for key, words in enumerate(lengths):
        if len(expected) < top_k and words + HEADER <= left:
            expected.append(key)
            left -= words + HEADER
    context = packed(shelf_of(lengths), list(range(len(lengths))), Pack(top_k=top_k, token_budget=budget))
    assert keys_in(context) == (expected or [0])


def test_a_long_passage_is_passed_over_and_a_smaller_one_behind_it_still_fits() -> None:
    context = packed(shelf_of([10, 50, 10]), [0, 1, 2], Pack(token_budget=30))
    assert keys_in(context) == [0, 2]
    assert context.dropped == (Dropped(1, "budget"),)
    assert context.degraded == ()


def test_the_best_passage_alone_may_exceed_the_budget_and_is_told() -> None:
    context = packed(shelf_of([50, 40]), [0, 1], Pack(token_budget=30))
    assert keys_in(context) == [0]
    assert context.items[0].text.count("word") == 49
    assert context.degraded == (
        Degraded(Stage.PACK, "budget", "the best passage takes 53 of 30 tokens; it came whole and alone"),
    )


def test_a_best_passage_that_gave_way_to_shorter_ones_is_told() -> None:
    context = packed(shelf_of([50, 10]), [0, 1], Pack(token_budget=30))
    assert keys_in(context) == [1]
    assert context.degraded == (
        Degraded(Stage.PACK, "budget", "the best passage takes 53 of 30 tokens; shorter ones came in its place"),
    )


def test_of_a_group_the_best_ranked_is_kept_and_named_instead() -> None:
    context = packed(shelf_of([5, 5, 5]), [2, 0, 1], Pack(), of={0: 0, 1: 1, 2: 0})
    assert keys_in(context) == [2, 1]
    assert context.dropped == (Dropped(0, "duplicate", 2),)


def test_a_duplicate_that_fits_stands_in_for_one_that_did_not() -> None:
    context = packed(shelf_of([5, 50, 6]), [0, 1, 2], Pack(token_budget=30), of={1: 1, 2: 1})
    assert keys_in(context) == [0, 2]


def test_behind_top_k_it_says_top_k() -> None:
    context = packed(shelf_of([5, 5, 5]), [0, 1, 2], Pack(top_k=1))
    assert context.dropped == (Dropped(1, "top_k"), Dropped(2, "top_k"))


def test_without_groups_exact_duplicates_are_still_dropped() -> None:
    shelf = FakeShelf([make_passage(f"d{number}", 0, text) for number, text in enumerate(["same", "same", "other"])])
    context = packed(shelf, [1, 0, 2], Pack(top_k=2), blind=True)
    assert keys_in(context) == [1, 2]
    assert context.dropped == (Dropped(0, "duplicate", 1),)


def test_a_similarity_above_1_keeps_exact_duplicates() -> None:
    shelf = FakeShelf([make_passage(f"d{number}", 0, "same") for number in range(2)])
    assert len(packed(shelf, [0, 1], Pack(similarity=1.01), blind=True).items) == 2


def test_neighbours_become_one_source_in_document_order_at_the_place_of_the_best() -> None:
    shelf = FakeShelf(
        [
            make_passage("guide", 3, "third"),
            make_passage("other", 0, "elsewhere"),
            make_passage("guide", 2, "second"),
            make_passage("guide", 5, "fifth"),
        ]
    )
    context = packed(shelf, [0, 1, 2, 3], Pack())
    assert [cited.text for cited in context.items] == ["second\nthird", "elsewhere", "fifth"]
    assert context.items[0].ranked.candidate.key == 0
    assert context.items[0].tokens == 2 + HEADER


def test_neighbours_stay_apart_when_asked() -> None:
    shelf = FakeShelf([make_passage("guide", number, f"p{number}") for number in range(2)])
    assert len(packed(shelf, [0, 1], Pack(join_neighbours=False)).items) == 2


def test_what_neighbours_share_is_written_once() -> None:
    shared = "a sentence that both of them hold."
    shelf = FakeShelf([make_passage("d", 0, f"Before. {shared}"), make_passage("d", 1, f"{shared} After.")])
    assert packed(shelf, [0, 1], Pack()).items[0].text == f"Before. {shared} After."


def test_a_word_shared_by_chance_is_kept() -> None:
    shelf = FakeShelf([make_passage("d", 0, "look at the"), make_passage("d", 1, "the end")])
    assert packed(shelf, [0, 1], Pack()).items[0].text == "look at the\nthe end"


@steady
@given(st.text("ab", max_size=60), st.text("ab", max_size=60))
def test_the_overlap_is_the_longest_there_is(before: str, after: str) -> None:
    obvious = max(
        (length for length in range(min(len(before), len(after)) + 1) if before.endswith(after[:length])), default=0
    )
    assert overlap(before, after) == (obvious if obvious >= 20 else 0)


def test_everything_given_up_on_the_way_is_handed_on_in_order() -> None:
    shelf = shelf_of([5])
    found = Candidates(candidates_on(shelf, [0]).items, shelf, (Degraded(Stage.DENSE, "overloaded"),))
    ranking = Ranking(as_fused(found).items, (Degraded(Stage.RERANK, "out_of_time"),))
    groups = Groups({}, (Degraded(Stage.DUPLICATES, "out_of_time"),))
    sizes = Sizes({}, (Degraded(Stage.SIZES, "out_of_time"),))
    context = PACKER.pack(asked(), found, ranking, groups, sizes)
    assert [given_up.stage for given_up in context.degraded] == ["dense", "rerank", "duplicates", "sizes"]
    assert context.tokens == 5 + HEADER
    assert context.generation == "fake@1"


@pytest.mark.parametrize("keys", [[], [0]])
def test_nothing_asked_or_found_is_an_empty_context(keys: list[int]) -> None:
    context = packed(shelf_of([5]), keys, Pack(top_k=0))
    assert (context.items, context.tokens, context.degraded) == ((), 0, ())
