"""Answers without a model: quoted, cited, honest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generate.extractive import ExtractiveGenerator, ExtractiveOptions, extract
from generate.languages import REFUSALS
from generate.sources import MIDDLING, similarities
from pipeline.passages import Aside, Context
from tests.prompts import cited, context_of, prompt_of

DOGS = "A dog needs a day ticket for 9 crowns; small animals travel free. Dogs wear a lead."
BICYCLES = "Bicycles ride on the hooks, four at most. They are carried as far as Goat Saddle and no further."
GROUPS = "A group is ten or more people who travel on one ticket. Groups pay one fifth less."
XQUAD = Path(__file__).parents[2] / "../shared/data/xquad-multi"


def test_the_sentence_that_answers_is_quoted_with_its_number() -> None:
    assert str(extract("How many people make a group?", context_of(DOGS, BICYCLES, GROUPS))) == (
        "A group is ten or more people who travel on one ticket. [3]"
    )


def test_a_pronoun_brings_the_sentence_that_it_speaks_of() -> None:
    assert (
        str(extract("How far is a bicycle carried past Goat Saddle?", context_of(DOGS, BICYCLES))) == f"{BICYCLES} [2]"
    )


def test_a_fragment_is_named_by_its_heading() -> None:
    source = cited(
        1, "- two shovels\n- twelve transceivers", title="Avalanche watch", heading=("Gear in the cupboard",)
    )
    answer = str(extract("How many transceivers are there?", Context((source,), 4)))
    assert answer == "Gear in the cupboard: twelve transceivers. [1]"


def test_a_heading_helps_to_find_what_its_text_does_not_repeat() -> None:
    sources = (
        cited(1, "The fee is 3 crowns.", heading=("Luggage",)),
        cited(2, "The fee is 8 crowns.", heading=("Bicycles",)),
    )
    assert str(extract("What is the fee for bicycles?", Context(sources, 10))).startswith("The fee is 8 crowns. [2]")


def test_the_row_that_is_asked_for_is_quoted_whole() -> None:
    rows = "from: Millbrace; to: Larkstead; adult: 9; child: 5\nfrom: Underhollow; to: Larkstead; adult: 14; child: 7"
    answer = str(extract("What does an adult pay from Underhollow?", context_of(rows)))
    assert answer == "from: Underhollow; to: Larkstead; adult: 14; child: 7. [1]"


def test_a_question_in_the_text_lends_its_words_to_the_answer_below() -> None:
    text = "May I bring my skis? Yes, in the rack at the rear.\n\nMay I smoke? No."
    assert (
        str(extract("May I bring my skis?", context_of(text)))
        == "May I bring my skis? Yes, in the rack at the rear. [1]"
    )


def test_the_same_sentence_is_not_quoted_twice() -> None:
    extracted = extract("What does a dog need?", context_of(DOGS, DOGS))
    assert [quote.number for quote in extracted.quotes] == [1]


@pytest.mark.parametrize(
    ("question", "language"),
    [("Who won the world cup?", "en"), ("Wer hat die Meisterschaft gewonnen?", "de"), ("谁赢了？", "zh")],
)
def test_sources_that_are_silent_are_said_to_be_and_not_cited(question: str, language: str) -> None:
    answer = str(extract(question, context_of(DOGS, BICYCLES)))
    assert answer == REFUSALS[language]
    assert "[" not in answer


@pytest.mark.parametrize("question", ["", "?", "what is it"])
def test_a_question_without_content_is_refused(question: str) -> None:
    assert extract(question, context_of(DOGS)).quotes == ()


def test_a_passage_that_means_the_same_in_other_words_is_evidence_and_one_that_does_not_is_none() -> None:
    text = "Whoever left something on a train asks at counter 3. Found things are kept for 60 days."
    question = "How long is an umbrella kept that somebody forgot?"
    assert extract(question, context_like(0.7, text)).quotes
    assert not extract(question, context_like(0.15, text)).quotes


def test_what_the_search_for_meaning_passed_over_counts_as_the_least_that_it_found() -> None:
    found, passed_over = cited(1, DOGS, similarity=0.3), cited(2, GROUPS)
    assert similarities(Context((found, passed_over), 0)) == [0.3, 0.3]
    assert similarities(context_of(DOGS)) == [MIDDLING]


def test_a_follow_up_is_answered_beside_what_it_leans_on() -> None:
    text = "The contract runs from May to October. The wage is 1,620 crowns. Boots are paid for by the railway."
    aside = Aside("From when to when does the summer contract run?", 0.5)
    answer = str(extract("And the wage?", context_of("The wage of a guard is 2,100 crowns.", text), asides=(aside,)))
    assert answer.startswith("The wage is 1,620 crowns. [2]")


@pytest.mark.parametrize(("question", "refused"), [("Is there a sauna?", True), ("And then?", False)])
def test_what_a_follow_up_leans_on_is_no_answer_to_what_it_asks(question: str, *, refused: bool) -> None:
    aside = Aside("Where do dogs ride?", 0.5)
    assert (extract(question, context_like(0.5, DOGS), asides=(aside,)).quotes == ()) is refused


def test_the_words_of_the_follow_up_itself_decide_which_sentence_it_is() -> None:
    text = "If a marmot sits on the track, the driver waits. If it has not moved after a while, the guard comes."
    aside = Aside("What does the driver do when a marmot sits on the track?", 0.5)
    best = extract("And if it does not move?", context_of(text), ExtractiveOptions(quotes=1), (aside,)).quotes[0]
    assert best.text.endswith("the guard comes.")


def test_each_cell_of_a_row_is_named_by_its_column_and_helps_to_find_it() -> None:
    table = "Station | Accessible toilet\nUnderhollow | yes\nMillbrace | none"
    answer = str(extract("Is there a toilet at Millbrace?", context_of(table)))
    assert answer == "Station: Millbrace; Accessible toilet: none. [1]"


def test_a_heading_is_said_once_for_what_follows_under_it() -> None:
    source = cited(1, "- two shovels of steel\n- twelve shovels of wood", heading=("Gear in the cupboard",))
    answer = str(extract("How many shovels are there?", Context((source,), 4)))
    assert answer == "Gear in the cupboard: two shovels of steel. twelve shovels of wood. [1]"


def test_neighbours_that_were_joined_keep_their_own_headings() -> None:
    first = cited(1, "The rack is greased.", heading=("Greasing",))
    second = cited(1, "- two gauges of brass", heading=("Measuring",))
    passages = (*first.passages, *second.passages)
    joined = replace(first, passages=passages, text="\n".join(one.text for one in passages))
    assert str(extract("How many gauges?", Context((joined,), 8))) == "Measuring: two gauges of brass. [1]"


def test_where_little_of_the_question_was_found_what_follows_is_quoted_too() -> None:
    text = "The wind gauge reports gusts to the control room. From 75 km/h on, no train runs to the summit."
    question = "How strong are gusts when it shuts?"
    assert "75 km/h" in str(extract(question, context_like(0.6, text)))
    assert "75 km/h" not in str(extract("What reports gusts to the control room?", context_like(0.6, text)))


def test_an_empty_context_is_refused() -> None:
    assert extract("What does a dog need?", Context((), 0)).quotes == ()


def test_answers_stay_within_their_bounds() -> None:
    context = context_of(*(f"Dogs number {number} need tickets of kind {number * 7}." for number in range(9)))
    assert len(extract("What tickets do dogs need?", context, ExtractiveOptions(quotes=2, rival=0.1)).quotes) <= 2
    assert len(extract("What tickets do dogs need?", context, ExtractiveOptions(characters=1)).quotes) == 1


@given(
    st.lists(st.text("dog cat Tee. !?\n#-*|:;[]()東京。", min_size=1, max_size=120), max_size=4),
    st.text("dog cat 東京?", max_size=30),
)
def test_every_quote_stands_in_its_source_exactly_so(texts: list[str], question: str) -> None:
    context = context_of(*texts)
    for quote in extract(question, context, ExtractiveOptions(evidence=0.0, rival=0.0)).quotes:
        assert quote.text in context.items[quote.number - 1].text


@pytest.mark.parametrize("text", ["A dog needs a ticket.", "列车三点发车，犬不可乘车。", "A  dog\nand 犬 ride."])
async def test_the_words_of_the_stream_add_up_to_the_answer(text: str) -> None:
    prompt = prompt_of("dog 犬?", context_of(text))
    async with aclosing(ExtractiveGenerator().generate(prompt)) as tokens:
        spoken = [token async for token in tokens]
    assert "".join(token.text for token in spoken) == str(extract(prompt.question, prompt.context))
    assert len(spoken) > 4
    assert all(token.usage is None for token in spoken)


def context_like(similarity: float, text: str) -> Context:
    """A context whose first source the dense leg found so similar, and others much less."""
    others = (cited(number, other, similarity=0.1) for number, other in enumerate((DOGS, BICYCLES, GROUPS), start=2))
    return Context((cited(1, text, similarity=similarity), *others), 0)


def questions(language: str) -> Iterator[tuple[str, Context, list[str]]]:
    """Every twentieth XQuAD question with five paragraphs, its own among them, and the accepted answers."""
    if not XQUAD.is_dir():
        pytest.skip(f"needs XQuAD at {XQUAD.name}, which lies outside the repository")
    with gzip.open(XQUAD / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents: dict[str, str] = {document["_id"]: document["text"] for document in map(json.loads, lines)}
    ids = list(documents)
    with gzip.open(XQUAD / "queries.jsonl.gz", "rt", encoding="utf-8") as lines:
        asked: list[dict[str, Any]] = [
            query for query in map(json.loads, lines) if query["metadata"]["lang"] == language
        ]
    for query in asked[::20]:
        place = ids.index(query["metadata"]["gold_doc"])
        around = ids[max(place - 2, 0) : place + 3]
        items = tuple(cited(number, documents[name], language=language) for number, name in enumerate(around, start=1))
        yield query["text"], Context(items, 0), query["metadata"]["answers"]


@pytest.mark.parametrize(
    ("language", "at_least"), [("en", 0.7), ("de", 0.6), ("es", 0.7), ("ru", 0.6), ("zh", 0.6), ("ar", 0.6)]
)
def test_most_questions_are_answered_by_what_is_quoted(language: str, at_least: float) -> None:
    held = [
        any(answer in " ".join(quote.text for quote in extract(question, context).quotes) for answer in answers)
        for question, context, answers in questions(language)
    ]
    assert len(held) > 50
    assert sum(held) / len(held) >= at_least, f"{sum(held) / len(held):.3f} of the questions"
