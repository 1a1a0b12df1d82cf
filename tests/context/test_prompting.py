"""The prompt: byte-stable in front, documents never out of their quotation, the conversation as it was sent."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.labels import label
from context.prompting import CitingPrompter, PromptTemplate
from pipeline.errors import Misconfigured
from pipeline.passages import Aside, Context, Prompt, Turn
from tests.fakes_shelf import asked
from tests.prompts import cited, context_of

PROMPTER = CitingPrompter(PromptTemplate())


def prompt(*turns: Turn, context: Context | None = None, text: str = "Where is it?") -> Prompt:
    return PROMPTER.prompt(asked(text, conversation=turns), context_of("In the box.") if context is None else context)


def test_the_system_prompt_is_the_same_for_every_question_and_every_source() -> None:
    one = prompt(Turn("user", "Where?"))
    other = prompt(Turn("user", "Wann?"), context=context_of("a", "b"))
    assert one.messages[0] == other.messages[0]
    assert re.search(r"\d{4}", one.messages[0].content) is None


def test_the_callers_own_instructions_follow_ours_and_come_before_the_sources() -> None:
    said = prompt(Turn("system", "Speak like a pirate."), Turn("developer", "Use metres."), Turn("user", "Where?"))
    assert [turn.role for turn in said.messages] == ["system", "user"]
    system = said.messages[0].content
    assert system.startswith(PromptTemplate().system)
    assert system.endswith("Speak like a pirate.\n\nUse metres.")
    assert "In the box." in said.messages[1].content


def test_sources_open_the_first_user_message_and_the_conversation_follows_untouched() -> None:
    rest = (Turn("assistant", "It is red."), Turn("user", "And where?", {"name": "ann"}))
    said = prompt(Turn("user", "What is it?", {"name": "ann"}), *rest)
    assert said.messages[2:] == rest
    assert said.messages[1].content.endswith("> In the box.\n\nEnd of the sources.\n\nWhat is it?")
    assert said.messages[1].extra == {"name": "ann"}
    assert said.question == "And where?"


def test_roles_alternate_even_when_the_assistant_spoke_first() -> None:
    said = prompt(Turn("assistant", "Hello!"), Turn("user", "Where?"))
    assert [turn.role for turn in said.messages] == ["system", "user", "assistant", "user"]


def test_without_a_conversation_the_query_is_the_question() -> None:
    said = prompt(text="Where is it?")
    assert said.messages[-1].content.endswith("Where is it?")
    assert said.question == "Where is it?"
    alone = prompt(Turn("system", "Be kind."), text="Where is it?")
    assert alone.messages[-1].content.endswith("Where is it?")


def test_an_empty_context_says_that_there_are_no_sources() -> None:
    said = prompt(Turn("user", "Where?"), context=Context((), 0))
    assert said.messages[1].content.startswith("Sources: there are none")


def test_what_travels_with_the_query_reaches_the_prompt() -> None:
    asides = (Aside("What is a rack?", 0.5),)
    query = asked("Where?", sampling={"temperature": 0}, request_id="r1", asides=asides)
    said = PROMPTER.prompt(query, context_of("x"))
    assert said.asides == asides
    assert (said.sampling, said.request_id, said.priority) == ({"temperature": 0}, "r1", 0)


LINE_ENDS = "\n\r\x0b\x0c\x1c\x85\u2028\u2029"


@settings(deadline=None, derandomize=True)
@given(
    st.text(st.sampled_from("ab[]1> $\\" + LINE_ENDS) | st.characters(), max_size=80),
    st.text(st.sampled_from("ab[]1> $" + LINE_ENDS), max_size=40),
)
def test_no_text_and_no_title_can_begin_a_line_of_its_own(text: str, title: str) -> None:
    """Taken apart by lines again, a source is one header and quoted lines, whatever it holds."""
    said = prompt(Turn("user", "Where?"), context=Context((cited(1, text, title=title or "t"),), 1))
    lines = said.messages[1].content.splitlines()
    assert lines[:2] == ["Sources:", ""]
    assert lines[2].startswith("[1] ")
    assert lines[-4:] == ["", "End of the sources.", "", "Where?"]
    assert all(line.startswith(">") for line in lines[3:-4])


@pytest.mark.parametrize(
    "word",
    ["<|im_start|>", "<|eot_id|>", "</s>", "<s>", "[INST]", "[/INST]", "<start_of_turn>", "<｜User｜>", "<<SYS>>"],
)
def test_control_words_of_chat_templates_are_disarmed(word: str) -> None:
    context = Context((cited(1, f"x {word}system", title=f"t {word}"),), 1)
    content = prompt(Turn("user", "Where?"), context=context).messages[1].content
    assert word not in content
    assert content.count(f"{word[0]} {word[1:]}") == 2


def test_ordinary_markup_and_dollar_signs_stay_as_they_are() -> None:
    text = "<p>costs $number or $5</p> a[0] <b>"
    assert f"> {text}" in prompt(Turn("user", "?"), context=context_of(text)).messages[1].content


def test_a_label_names_title_headings_and_pages_once() -> None:
    assert label(cited(1, "x", title="Guide", heading=("Guide", "Doors\n[2]"))) == "Guide › Doors [2]"
    assert label(cited(1, "x")) == "d1.md"


@pytest.mark.parametrize("wrong", ["no text", "[$number] $label $text $date", "[$number] $label $text $"])
def test_a_template_with_other_placeholders_is_refused(wrong: str) -> None:
    with pytest.raises(Misconfigured, match=r"\$label, \$number, \$text"):
        PromptTemplate(source=wrong)
