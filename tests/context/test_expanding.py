"""What stands around a hit joins it, as far as the budget goes and never twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from context.joining import Joined
from context.packing import BudgetPacker, PackOptions
from pipeline.passages import Context, Passage
from pipeline.profile import Expand, Pack
from tests.fakes_shelf import FakeShelf, asked, make_passage, ranked_on

HEADER = 3
PACKER = BudgetPacker(PackOptions(header_tokens=HEADER))
WORDS = [f"w{number}" for number in range(40)]


def cut(document: str, tokens: int, overlap: int, *, section: int = 0, words: list[str] = WORDS) -> list[Passage]:
    """Windows over the words of one section, with their places in its text."""
    passages: list[Passage] = []
    first = 0
    while True:
        some = words[first : first + tokens]
        start = sum(len(word) + 1 for word in words[:first])
        made = make_passage(document, len(passages), " ".join(some), parent=f"{document}#{section}", start=start)
        passages.append(made)
        if first + tokens >= len(words):
            return passages
        first += tokens - overlap


def packed(passages: list[Passage], keys: list[int], pack: Pack) -> Context:
    candidates, ranking, groups, sizes = ranked_on(FakeShelf(passages), keys)
    return PACKER.pack(asked(pack=pack), candidates, ranking, groups, sizes)


def joined(*passages: Passage) -> str:
    context = packed(list(passages), list(range(len(passages))), Pack(top_k=len(passages), token_budget=10_000))
    (cited,) = context.items
    return cited.text


def test_overlapping_neighbours_are_read_as_the_text_that_they_were_cut_from() -> None:
    assert joined(*cut("d", 8, 3)) == " ".join(WORDS)


def test_neighbours_that_were_cut_within_a_word_are_joined_without_a_break() -> None:
    first = make_passage("d", 0, "the dep", parent="d#0", start=0)
    second = make_passage("d", 1, "ot opens", parent="d#0", start=7)
    assert joined(first, second) == "the depot opens"


def test_a_passage_within_the_one_before_adds_nothing() -> None:
    texts = [("one two three", 0), ("two", 4), ("three four", 8)]
    passages = [
        make_passage("d", number, text, parent="d#0", start=start) for number, (text, start) in enumerate(texts)
    ]
    assert joined(*passages) == "one two three four"


def test_what_two_sections_have_in_common_is_written_twice() -> None:
    """Nobody repeated it: the author wrote it so."""
    same = "a sentence that both of the sections hold."
    first = make_passage("d", 0, same, parent="d#0", start=0)
    second = make_passage("d", 1, f"{same} And more.", parent="d#1", start=0)
    assert joined(first, second) == f"{same}\n{same} And more."


def test_a_hit_comes_with_the_passages_beside_it() -> None:
    passages = cut("d", 8, 0)
    context = packed(passages, [2], Pack(expand=Expand.NEIGHBOURS))
    (cited,) = context.items
    assert [passage.ordinal for passage in cited.passages] == [1, 2, 3]
    assert cited.ranked.candidate.key == 2
    assert cited.text == "\n".join(passage.text for passage in passages[1:4])
    assert (cited.previous, cited.next) == ("d:0", "d:4")
    assert context.tokens == cited.tokens == 24 + HEADER


def test_a_hit_comes_with_its_section_and_nothing_of_the_next() -> None:
    passages = cut("d", 8, 3) + [
        replace(passage, ordinal=passage.ordinal + 8, id=f"d:{passage.ordinal + 8}")
        for passage in cut("d", 5, 0, section=1, words=[f"x{number}" for number in range(5)])
    ]
    (cited,) = packed(passages, [3], Pack(expand=Expand.PARENT)).items
    assert cited.text == " ".join(WORDS)
    assert (cited.previous, cited.next) == ("", "d:8")


def test_a_section_too_long_for_the_budget_comes_as_far_as_it_fits_around_the_hit() -> None:
    context = packed(cut("d", 8, 0), [2], Pack(expand=Expand.PARENT, token_budget=8 + HEADER + 20))
    (cited,) = context.items
    assert [passage.ordinal for passage in cited.passages] == [1, 2, 3]
    assert context.tokens <= 31


def test_hits_come_first_and_only_what_they_leave_is_spent_on_their_surroundings() -> None:
    passages = cut("d", 8, 0) + cut("e", 8, 0, words=[f"e{number}" for number in range(40)])
    context = packed(passages, [2, 7], Pack(expand=Expand.NEIGHBOURS, token_budget=2 * (8 + HEADER) + 9))
    assert [[passage.id for passage in cited.passages] for cited in context.items] == [["d:1", "d:2"], ["e:2"]]


def test_hits_that_meet_become_one_source_unless_they_are_to_stay_apart() -> None:
    passages = cut("d", 8, 3)
    (cited,) = packed(passages, [1, 3], Pack(expand=Expand.NEIGHBOURS)).items
    assert [passage.ordinal for passage in cited.passages] == [0, 1, 2, 3, 4]
    apart = packed(passages, [1, 3], Pack(expand=Expand.NEIGHBOURS, join_neighbours=False)).items
    assert [[passage.ordinal for passage in each.passages] for each in apart] == [[0, 1, 2], [3, 4]]


def test_what_was_passed_over_and_comes_as_a_neighbour_is_not_counted_as_dropped() -> None:
    context = packed(cut("d", 8, 0), [2, 3, 0], Pack(top_k=1, expand=Expand.NEIGHBOURS))
    assert [passage.ordinal for passage in context.items[0].passages] == [1, 2, 3]
    assert [dropped.key for dropped in context.dropped] == [0]


def test_a_text_that_is_in_the_context_already_does_not_come_again() -> None:
    passages = [make_passage("d", 0, "same"), make_passage("d", 1, "other"), make_passage("e", 0, "same")]
    context = packed(passages, [2, 1], Pack(expand=Expand.NEIGHBOURS))
    assert [cited.text for cited in context.items] == ["same", "other"]


def test_of_a_generation_that_knows_no_sections_neighbours_come_and_sections_do_not() -> None:
    passages = [make_passage("d", number, f"p{number}") for number in range(3)]
    assert packed(passages, [1], Pack(expand=Expand.NEIGHBOURS)).items[0].text == "p0\np1\np2"
    assert packed(passages, [1], Pack(expand=Expand.PARENT)).items[0].text == "p1"


@given(st.data())
def test_the_promises_of_packing_hold_with_surroundings(data: st.DataObject) -> None:
    documents = data.draw(st.lists(st.tuples(st.integers(3, 9), st.integers(0, 2)), min_size=1, max_size=3))
    passages = [
        passage
        for number, (tokens, overlap) in enumerate(documents)
        for passage in cut(f"d{number}", tokens, overlap, words=[f"{word}.{number}" for word in WORDS[:20]])
    ]
    keys = data.draw(st.permutations(range(len(passages))))[: data.draw(st.integers(1, 6))]
    pack = Pack(
        top_k=data.draw(st.integers(1, 4)),
        token_budget=data.draw(st.integers(1, 120)),
        join_neighbours=data.draw(st.booleans()),
        expand=data.draw(st.sampled_from(Expand)),
    )
    context = packed(passages, keys, pack)
    inside = [passage.id for cited in context.items for passage in cited.passages]
    assert len(inside) == len(set(inside)), "no passage twice"
    assert context.tokens <= pack.token_budget or len(inside) == 1
    assert len(context.items) <= pack.top_k
    plain = packed(passages, keys, replace(pack, expand=Expand.NONE))
    assert {passage.id for cited in plain.items for passage in cited.passages} <= set(inside), "no hit gives way"
    for cited in context.items:
        ordinals = [passage.ordinal for passage in cited.passages]
        assert ordinals == list(range(ordinals[0], ordinals[0] + len(ordinals)))
        words = [word for word in WORDS[:20] if f"{word}." in cited.text]
        assert all(cited.text.count(f"{word}.{cited.passages[0].document_id[1:]}") == 1 for word in words)


def test_a_source_of_one_passage_is_that_passage() -> None:
    passage = make_passage("d", 0, "alone")
    _, ranking, _, _ = ranked_on(FakeShelf([passage]), [0])
    source = Joined.alone(ranking.items[0], passage)
    assert (source.text, source.tokens, source.keys) == ("alone", 1, (0,))
