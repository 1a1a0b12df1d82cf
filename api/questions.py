"""What to search for when somebody talks: the last question, and what it leans on.

A follow-up such as "And in Germany?" finds nothing by itself. Where the last message is short or points back, earlier
turns of the user join both search legs beside it at lower weight; no model is called for it. The words that point back
are a closed class in every language, so a table of them goes far; a wrong guess costs little, because the question
itself always weighs most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.passages import Aside

# Words; at most so many seldom carry a topic and a question about it. On the handbook's 20 follow-ups nDCG@10 of the
# search is .87 with 4, .89 with 6 or more; on its other questions, asked after one on something else, .85 with 4 or 6
# as with no earlier turn at all, .84 where all take one along.
SHORT = 6
WEIGHTS = (0.5, 0.25)  # of the last and the one before; at .75 a change of topic begins to cost
LONGEST_ASIDE = 600  # characters
POINTING_BACK = frozenset(
    # English
    "it its they them their theirs this that these those he him his she her hers there then same former latter "
    "one ones either neither both "
    # German
    "dies diese dieser dieses diesen diesem jene jener jenes davon dazu damit dafür dabei daran darauf darin dort "
    "sie ihn ihm ihr ihre ihren ihrem deren dessen dasselbe "
    # French
    "il elle ils elles cela ça ceci celui celle ceux celles leur leurs lui dedans "
    # Spanish, Portuguese, Italian
    "eso esto esa ese esos esas ello ellos ellas aquel aquella allí isso isto ele ela eles elas dele dela "
    "disso nisso questo questa questi queste quello quella esso essa essi loro lì "
    # Dutch, Swedish, Polish
    "deze dit dat daarvan daarmee daarvoor ervan hun den det dem deras denna detta dessa tego tym tej ich jego jej "
    # Russian, Turkish
    "он она оно они его её ее их ему им этот эта это эти этого этой там bu bunu bunun o onu onun onlar bunlar orada"
    "".split()
)
OPENERS = frozenset(
    "and but or so why what-about how-about und aber oder warum wieso et mais ou pourquoi y pero o e ma ed en maar of "
    "och men i a и а но ve peki".split()
)
POINTING_BACK_UNSPACED = re.compile("[它他她这那]|其|それ|これ|あれ|その|この|彼|그것|이것|그건|이건")
WORD = re.compile(r"[^\W_]+")
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # kana and CJK ideographs: about two make a word


@dataclass(frozen=True, slots=True)
class Question:
    """The text to search for, and earlier turns that join it."""

    text: str
    asides: tuple[Aside, ...] = ()


def question(said: Sequence[str], longest: int) -> Question:
    """The question in what the user said, oldest first, of which the last is the question itself."""
    text = _cut(said[-1].strip(), longest)
    earlier = [turn.strip() for turn in reversed(said[:-1]) if turn.strip()]
    if not earlier or not leans_back(text):
        return Question(text)
    asides = (Aside(_cut(turn, LONGEST_ASIDE), weight) for turn, weight in zip(earlier, WEIGHTS, strict=False))
    return Question(text, tuple(asides))


def leans_back(text: str) -> bool:
    """Whether the text is too short to stand alone, or points back to something said before."""
    words = [word.casefold() for word in WORD.findall(text)]
    unspaced = len(UNSPACED.findall(text))
    if POINTING_BACK_UNSPACED.search(text) or not POINTING_BACK.isdisjoint(words):
        return True
    if words and (words[0] in OPENERS or "-".join(words[:2]) in OPENERS):
        return True
    spaced = sum(1 for word in words if not UNSPACED.search(word))
    return spaced + unspaced / 2 <= SHORT


def _cut(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long: people ask before what they paste, or after it."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} {text[-half:]}"
