"""How well each sentence of a context answers a question: by the words that they share, and by the search for meaning.

A word weighs by how rare it is among the context's sentences (the idf of BM25, Robertson and Spärck Jones). Words that
a sentence lacks but its heading or the sentence before it holds count in part: authors name their subject once. What
people put in other words than the author did shows in the dense leg's similarity of question and passage alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from generate.languages import PRONOUNS, stop_terms
from generate.sentences import Statement
from generate.sources import similarities, stated
from generate.terms import affinity, terms, unspaced
from pipeline.passages import Aside, Cited, Context

ABOVE = 0.5  # what a word counts that only the heading or the title holds
BEFORE = 0.3  # what it counts when only the sentence before holds it
ASKED = 0.8  # the same, when that sentence is a question: then this is its answer
NEAR = 0.9  # what a word of an earlier turn counts that the heading or the sentence before holds
AROUND = 0.7  # the same, when it stands anywhere in the source: a topic is named once, and what is asked now beside it
NEXT_TO = 0.15  # what two words add that stand together in both
RANK = 0.03  # what each place further down the ranking takes away
LIKENESS = (
    0.5  # what a passage's similarity adds to coverage: fitted on XQuAD (logistic), .62 in English, .33 elsewhere
)
ACROSS = 0.3  # what a pair of characters weighs that the context lacks: it may lie across two words, and be none
LONG = 30  # terms; a sentence longer than this pays for its length
HOW_MUCH = re.compile(
    r"\b(?:how (?:many|much|long|old|far|often|high|fast|heavy)|when|what (?:time|year|date|number)|wie ?viele?|"
    r"wann|wie (?:lange|oft|hoch|weit)|combien|quand|à quelle heure|cu[aá]nt[oa]s?|cu[aá]ndo|quant[oaie]s?|quando|"
    r"hoeveel|wanneer|ile|kiedy|hur (?:många|mycket)|сколько|когда|скільки|коли|kaç|πόσ\w+|πότε)\b|"
    r"多少|几点|几时|何時|何人|いくら|いつ|얼마|언제|몇|كم|متى|कितन|कब|เท่าไ|กี่|เมื่อไ",
    re.IGNORECASE,
)
FIRST_WORD = re.compile(r"[^\W\d_]+")
DIGIT = re.compile(r"\d|[一二三四五六七八九十百千]")
NOTHING: Mapping[str, float] = {}
QUESTION = re.compile(r"[?？؟][)\"'»”’」』]*\s*$")


@dataclass(frozen=True, slots=True)
class Scored:
    """`source.text[start:end]` with its score, by which sentences are compared; `by_words` is the part of it that is
    its own and not its passage's. `coverage` is the share of the question's weight that it is about, 0..1, and with
    its passage's likeness that is the `evidence` by which it is told whether the sources answer at all.

    `antecedent` is where the sentence before begins, when this one answers it or speaks of it by a pronoun; else it
    is `start`. `columns` names those of a table's row.
    """

    source: Cited
    start: int
    end: int
    antecedent: int
    heading: str
    finished: bool
    score: float
    by_words: float
    coverage: float
    evidence: float
    terms: frozenset[str]
    columns: str


class Scorer:
    """Compares one question, and earlier turns that it leans on at their weight, with the sentences of one context."""

    def __init__(self, question: str, language: str, context: Context, asides: Sequence[Aside] = ()) -> None:
        asked = list(dict.fromkeys(terms(question)))
        stop = stop_terms(language)
        said = [(1.0, asked), *((aside.weight, terms(aside.text)) for aside in asides)]
        self._shares: dict[str, float] = {}
        for weight, words in said:
            for term in words:
                if term not in stop:
                    self._shares.setdefault(term, weight)
        self._asked = list(self._shares)
        self._topic = self._shares.keys() - set(asked)
        self._equal = frozenset(self._asked)
        self._spaced = [term for term in self._asked if not unspaced(term)]
        self._pairs = set(pairwise(asked))
        self._wants_number = HOW_MUCH.search(question) is not None
        self._related: dict[str, list[tuple[str, float]]] = {}
        self._similar = similarities(context)
        self._sources = [self._read(source) for source in context.items]
        self._weights = self._weigh()

    def scored(self) -> Iterator[Scored]:
        """Every sentence but questions that are answered, in order; none where the question has no words of content."""
        total = sum(self._weights.values())
        if not total:
            return
        for place, (sentences, similar) in enumerate(zip(self._sources, self._similar, strict=True)):
            likeness = LIKENESS * total * similar
            topic = self._topic_in(sentences)
            for before, one, after in zip([None, *sentences], sentences, [*sentences[1:], None], strict=False):
                if not (one.asks and after is not None):
                    words = self._about(one, before, topic)
                    manner = self._manner(one, place)
                    statement = one.statement
                    yield Scored(
                        one.source,
                        statement.start,
                        statement.end,
                        _antecedent(one, before),
                        one.heading,
                        statement.finished,
                        (words + self._together(one) + likeness) * manner,
                        (words + self._together(one)) * manner,
                        words / total,
                        (words + likeness) / total,
                        frozenset(one.terms),
                        statement.columns,
                    )

    def _read(self, source: Cited) -> list[_Sentence]:
        above: dict[str, Mapping[str, float]] = {}
        sentences: list[_Sentence] = []
        for passage, statement in stated(source):
            heading = statement.heading or (passage.heading[-1] if passage.heading else passage.title)
            named = f"{passage.title} {heading}"
            if named not in above:
                above[named] = self._held(terms(named))
            text = source.text[statement.start : statement.end]
            words = terms(f"{statement.columns} {text}")
            sentences.append(_Sentence(source, statement, text, heading, words, self._held(words), above[named]))
        return sentences

    def _held(self, words: Iterable[str]) -> Mapping[str, float]:
        """The words of the question that are among these, each with how nearly it is the same word."""
        held: dict[str, float] = {}
        for word in words:
            related = self._related.get(word)
            if related is None:
                related = self._related[word] = self._relate(word)
            for term, degree in related:
                if degree > held.get(term, 0.0):
                    held[term] = degree
        return held

    def _relate(self, word: str) -> list[tuple[str, float]]:
        if unspaced(word):
            return [(word, 1.0)] if word in self._equal else []
        return [(term, degree) for term in self._spaced if (degree := affinity(term, word)) > 0]

    def _weigh(self) -> dict[str, float]:
        sentences = [one for source in self._sources for one in source]
        weights: dict[str, float] = {}
        for term in self._asked:
            frequency = sum(term in one.held for one in sentences)
            weights[term] = self._shares[term] * log(1 + (len(sentences) - frequency + 0.5) / (frequency + 0.5))
            if not frequency and unspaced(term):
                weights[term] *= ACROSS
        return weights

    def _topic_in(self, sentences: list[_Sentence]) -> dict[str, float]:
        """The words of earlier turns in a whole source: what is talked about is said once, what is asked now beside."""
        found: dict[str, float] = {}
        for one in sentences:
            for held in (one.held, one.above):
                for term in self._topic.intersection(held):
                    found[term] = max(held[term], found.get(term, 0.0))
        return found

    def _about(self, one: _Sentence, before: _Sentence | None, topic: Mapping[str, float]) -> float:
        """The weight of the question's words that the sentence, its heading or the one before it holds.

        Where it holds none that a follow-up says itself, it is about the topic and no answer, and counts nothing.
        """
        share = ASKED if before is not None and before.asks else BEFORE
        earlier = before.held if before is not None else NOTHING
        own = leaned_on = 0.0
        for term, weight in self._weights.items():
            above, beside = one.above.get(term, 0), earlier.get(term, 0)
            if term in self._topic:
                held = max(one.held.get(term, 0), NEAR * above, NEAR * beside, AROUND * topic.get(term, 0))
                leaned_on += weight * held
            else:
                own += weight * max(one.held.get(term, 0), ABOVE * above, share * beside)
        return own + leaned_on if own or len(self._topic) == len(self._asked) else 0.0

    def _together(self, one: _Sentence) -> float:
        return NEXT_TO * sum(
            self._weights.get(first, 0.0) + self._weights.get(second, 0.0)
            for first, second in self._pairs.intersection(pairwise(one.terms))
        )

    def _manner(self, one: _Sentence, place: int) -> float:
        factor = max(1 - RANK * place, 0.7)
        length = len(one.terms)
        if length > LONG:
            factor /= 1 + 0.2 * log(length / LONG)
        if one.asks:
            factor *= 0.5
        if self._wants_number and DIGIT.search(one.text):
            factor *= 1.15
        if length < 4 and not one.statement.finished:
            factor *= 0.6
        return factor


@dataclass(frozen=True, slots=True)
class _Sentence:
    """`held` and `above` are the question's words in it and in its headings, each with how nearly it is the same."""

    source: Cited
    statement: Statement
    text: str
    heading: str
    terms: list[str]
    held: Mapping[str, float]
    above: Mapping[str, float]

    @property
    def asks(self) -> bool:
        """Whether it is a question, as pages of questions and answers hold them."""
        return QUESTION.search(self.text) is not None


def _antecedent(one: _Sentence, before: _Sentence | None) -> int:
    if before is None:
        return one.statement.start
    first = FIRST_WORD.search(one.text)
    together = before.statement.paragraph == one.statement.paragraph
    pronoun = first is not None and first.group().lower() in PRONOUNS
    return before.statement.start if before.asks or (together and pronoun) else one.statement.start


def repeats(one: Scored, other: Scored) -> bool:
    """Whether two sentences say nearly the same: most words of the shorter stand in the other."""
    fewer = min(len(one.terms), len(other.terms))
    return fewer == 0 or len(one.terms & other.terms) >= 0.7 * fewer
