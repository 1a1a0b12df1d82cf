"""Answers without a model: quotes the sentences of the context that answer best, each with its source's number.

Always grounded, since nothing is said that the sources do not say; and honest, since it says so when no sentence of
theirs is about the question. `extract` is the whole computation; the generator only speaks it word by word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf

from generate.languages import language_of, refusal_in
from generate.scoring import Scored, Scorer, repeats
from generate.sentences import FINISHED, named_cells, readable
from pipeline.clock import Lap, Stage
from pipeline.lane import Lane
from pipeline.passages import Aside, Context, Prompt, Token

WORDS = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+)\s*")


@dataclass(frozen=True, slots=True)
class ExtractiveOptions:
    """`quotes` sentences at most, of `characters` together, unless the best one alone is longer.

    `evidence` is what the best sentence must have (see `Scored`); below it the sources count as silent.
    `rival` is how good, against the best, a further sentence must be. Where the best one covers less than `sure` of
    the question, what follows it is quoted too: the author may have put the answer in words that nobody asked for.
    """

    quotes: int = 3
    characters: int = 600
    evidence: float = 0.5
    rival: float = 0.7
    sure: float = 0.4


@dataclass(frozen=True, slots=True)
class Quote:
    """`text` stands in source `number` exactly so; `heading`, and of a table's row `columns`, are what a fragment needs
    to be understood."""

    number: int
    text: str
    heading: str = ""
    columns: str = ""

    def __str__(self) -> str:
        said = readable(named_cells(self.text, self.columns) if self.columns else self.text)
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
        return " ".join(f"{' '.join(_said(run))} [{run[0].number}]" for run in runs)


def _said(run: Sequence[Quote]) -> Iterator[str]:
    """The quotes of one source; a heading is said once for all that follow under it."""
    heading = ""
    for quote in run:
        yield str(replace(quote, heading="") if quote.heading == heading else quote)
        heading = quote.heading or heading


class ExtractiveGenerator:
    """Implements the Generator port. Sampling fields are for models and mean nothing here; tokens are not counted.

    An answer takes some 7 ms of plain Python, which is computed in `lane`: eight at once would hold up the event loop
    for a twentieth of a second. Without a lane it is computed at once.
    """

    def __init__(self, options: ExtractiveOptions | None = None, *, lane: Lane | None = None) -> None:
        self.options = options or ExtractiveOptions()
        self._lane = lane

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        """Streams the answer word by word; other tasks get their turn after each. Raises Overloaded."""
        if self._lane is None:
            answer = self._answer(prompt)
        else:
            lap = Lap(Stage.FIRST_TOKEN, 0.0, inf, prompt.priority)
            answer = await self._lane.run(lap, lambda _: self._answer(prompt))
        for word in WORDS.findall(answer):
            yield Token(word, {"content": word})
            await asyncio.sleep(0)
        yield Token(finish_reason="stop")

    def _answer(self, prompt: Prompt) -> str:
        return str(extract(prompt.question, prompt.context, self.options, prompt.asides))


def extract(
    question: str, context: Context, options: ExtractiveOptions | None = None, asides: Sequence[Aside] = ()
) -> Extract:
    """The sentences of the context that answer the question best, in the order in which they read best.

    `asides` are earlier turns that a follow-up leans on: what it is about stands there.
    """
    options = options or ExtractiveOptions()
    language = language_of(" ".join([question, *(aside.text for aside in asides)]))
    scored = sorted(Scorer(question, language, context, asides).scored(), key=lambda one: -one.score)
    if not scored or scored[0].evidence < options.evidence:
        return Extract((), language)
    chosen = _choose(scored, options)
    return Extract(tuple(_quotes(_in_reading_order(chosen))), language)


def _choose(scored: list[Scored], options: ExtractiveOptions) -> list[Scored]:
    chosen = [scored[0]]
    length = scored[0].end - scored[0].start
    for one in scored[1:]:
        if len(chosen) == options.quotes or one.by_words < options.rival * scored[0].by_words:
            break
        length += one.end - one.start
        if length > options.characters:
            break
        if not any(repeats(one, other) for other in chosen):
            chosen.append(one)
    if chosen[0].coverage < options.sure and chosen[0].finished:
        chosen += _followers(chosen, scored, options.characters)
    return chosen


def _followers(chosen: list[Scored], scored: list[Scored], characters: int) -> Iterator[Scored]:
    """What comes after the best sentence in its source, as far as there is room."""
    best = chosen[0]
    taken = {(one.source.number, one.start) for one in chosen}
    length = sum(one.end - one.start for one in chosen)
    after = (one for one in scored if one.source.number == best.source.number and one.start > best.start)
    for one in sorted(after, key=lambda one: one.start):
        if (one.source.number, one.start) not in taken:
            length += one.end - one.start
            if length > characters:
                return
            yield one


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
        yield Quote(one.source.number, text, one.heading if wanted else "", one.columns)
