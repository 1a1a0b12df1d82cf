"""Answers without a model: quotes the sentences of the context that answer best, each with its source's number.

Always grounded, since nothing is said that the sources do not say; and honest, since it says so when no sentence of
theirs is about the question. `extract` is the whole computation; the generator only speaks it word by word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from itertools import groupby

from generate.languages import language_of, refusal_in
from generate.scoring import Scored, Scorer, repeats
from generate.sentences import FINISHED, readable
from pipeline.passages import Context, Prompt, Token

WORDS = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+)\s*")


@dataclass(frozen=True, slots=True)
class ExtractiveOptions:
    """`quotes` sentences at most, of `characters` together, unless the best one alone is longer.

    `coverage` is the share of the question, by the weight of its words, that the best sentence with its heading must
    be about; below it the sources count as silent. `rival` is how good, against the best, a further sentence must be.
    """

    quotes: int = 3
    characters: int = 600
    coverage: float = 0.25
    rival: float = 0.7


@dataclass(frozen=True, slots=True)
class Quote:
    """`text` stands in source `number` exactly so; `heading` is what a fragment needs to be understood."""

    number: int
    text: str
    heading: str = ""

    def __str__(self) -> str:
        said = readable(self.text)
        if not FINISHED.search(said):
            said += "."
        return f"{self.heading}: {said}" if self.heading else said


@dataclass(frozen=True, slots=True)
class Extract:
    """What was found; without quotes the answer is a refusal in the question's language."""

    quotes: tuple[Quote, ...]
    language: str

    def __str__(self) -> str:
        if not self.quotes:
            return refusal_in(self.language)
        runs = (list(run) for _, run in groupby(self.quotes, key=lambda quote: quote.number))
        return " ".join(f"{' '.join(str(quote) for quote in run)} [{run[0].number}]" for run in runs)


class ExtractiveGenerator:
    """Implements the Generator port. Sampling fields are for models and mean nothing here; tokens are not counted."""

    def __init__(self, options: ExtractiveOptions | None = None) -> None:
        self.options = options or ExtractiveOptions()

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        """Streams the answer word by word; other tasks get their turn after each."""
        answer = str(extract(prompt.question, prompt.context, self.options))
        for word in WORDS.findall(answer):
            yield Token(word, {"content": word})
            await asyncio.sleep(0)
        yield Token(finish_reason="stop")


def extract(question: str, context: Context, options: ExtractiveOptions | None = None) -> Extract:
    """The sentences of the context that answer the question best, in the order in which they read best."""
    options = options or ExtractiveOptions()
    language = language_of(question)
    scored = sorted(Scorer(question, language, context).scored(), key=lambda one: -one.score)
    if not scored or scored[0].coverage < options.coverage:
        return Extract((), language)
    chosen = _choose(scored, options)
    return Extract(tuple(_quotes(_in_reading_order(chosen))), language)


def _choose(scored: list[Scored], options: ExtractiveOptions) -> list[Scored]:
    chosen = [scored[0]]
    length = scored[0].end - scored[0].start
    for one in scored[1:]:
        if len(chosen) == options.quotes or one.score < options.rival * scored[0].score:
            break
        length += one.end - one.start
        if length > options.characters:
            break
        if not any(repeats(one, other) for other in chosen):
            chosen.append(one)
    return chosen


def _in_reading_order(chosen: list[Scored]) -> list[Scored]:
    """The source of the best sentence first; within a source as the author wrote."""
    order = {number: place for place, number in reversed(list(enumerate(one.source.number for one in chosen)))}
    return sorted(chosen, key=lambda one: (order[one.source.number], one.start))


def _quotes(chosen: list[Scored]) -> Iterator[Quote]:
    """Each chosen sentence, with the one before it where it needs that to be understood and nobody has quoted it."""
    quoted = {(one.source.number, one.start) for one in chosen}
    for one in chosen:
        start = one.start if (one.source.number, one.antecedent) in quoted else one.antecedent
        text = one.source.text[start : one.end]
        wanted = not one.finished and one.heading and one.heading.casefold() not in text.casefold()
        yield Quote(one.source.number, text, one.heading if wanted else "")
