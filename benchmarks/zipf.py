"""Text by a Zipf script: passages and questions of any number from a seed, with topics, sentences and function words.

Words are what a language has: the whole words of the embedder's own vocabulary, which lists them by frequency, and
behind them a long tail of invented names. Word frequencies follow Zipf's law in Mandelbrot's form, p(rank) ~ 1 /
(rank + q); two tokens in five are function words, as in English. A document is on one of the subjects of a topic. The
topic is a list of words, from which half of the document's content words come; the subject is three words more and
stands in its title and here and there in its text. A question names its subject, and what it asks is words of the topic
and common ones. So some words are rare and tell, others are common and do not.

Passages are made in blocks, each from a seed of its own: the first 100,000 of a million are the 100,000.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VERSION = 1  # change it with anything here that changes a text
SEED = 20261130
BLOCK = 10_000  # passages made together
PASSAGES_A_DOCUMENT = 8
TOPICS = 500
SUBJECTS = 4  # of a topic
SUBJECT_WORDS = 3
TOPIC_WORDS = 200
COMMON = 500  # the commonest words make no subject
NAMES = 60_000
MANDELBROT = 20  # q: the commonest content word is in one passage of six
LENGTHS = (40, 200)  # words of a passage
POOL = 1 << 20
TOPIC_POOL = 1 << 11
FUNCTION_SHARE, TOPIC_SHARE, SUBJECT_SHARE = 0.4, 0.25, 0.05  # of all words
SENTENCE = 16  # words, on average
FUNCTION_WORDS = (
    "the of and to in a is that for it as was with be by on not at are this have from or an they which one were all "
    "there would their we been has when who will more no if out so what up its about into than them can only other "
    "some could these two may then do first any my now such like our over me even most made after also did many"
).split()
OPENINGS = (
    "what is the",
    "how does the",
    "which",
    "why is",
    "when was the",
    "is it true that",
    "how many",
    "who has the",
    "where can",
    "what happens when",
    "does the",
    "does anyone know whether",
)
ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s st t tr v w z".split()
RHYMES = "ad al an ar as at eb ed el en er et ib id il in ir is ob od ol on or os ub ud ul un ur us".split()


@dataclass(frozen=True, slots=True)
class Text:
    """One passage as written: its document, its place in it, the subject that all of the document are on."""

    document: int
    ordinal: int
    subject: int
    title: str
    text: str


@dataclass(frozen=True)
class Script:
    """Writes passages and questions. `words` are content words, the commonest first."""

    words: tuple[str, ...]

    @classmethod
    def open(cls, tokenizer: Path) -> Script:
        """Takes words from the `tokenizer.json` of a WordPiece model, which lists them by frequency."""
        pieces: dict[str, int] = json.loads(tokenizer.read_text())["model"]["vocab"]
        function = set(FUNCTION_WORDS)
        known = [
            piece
            for piece in sorted(pieces, key=pieces.__getitem__)
            if len(piece) > 2 and piece.isascii() and piece.isalpha() and piece not in function
        ]
        return cls((*known, *_names(set(known))))

    def blocks(self, passages: int) -> Iterator[list[Text]]:
        """All passages, a block at a time."""
        for first in range(0, passages, BLOCK):
            yield self.block(first // BLOCK)[: passages - first]

    def block(self, number: int) -> list[Text]:
        """The passages of one block."""
        draw = np.random.default_rng((SEED, VERSION, 1, number))
        documents = BLOCK // PASSAGES_A_DOCUMENT
        subjects = np.repeat(self.subjects_of(number), PASSAGES_A_DOCUMENT)
        lengths = np.clip(draw.lognormal(np.log(95), 0.4, BLOCK), *LENGTHS).astype(np.int64)
        rows: list[Text] = []
        for row, text in enumerate(self._texts(draw, subjects, lengths)):
            document, ordinal = divmod(row, PASSAGES_A_DOCUMENT)
            subject = int(subjects[row])
            rows.append(Text(number * documents + document, ordinal, subject, self.titles[subject], text))
        return rows

    def subjects_of(self, number: int) -> NDArray[np.int64]:
        """`[documents of a block]`: the subject of each."""
        draw = np.random.default_rng((SEED, VERSION, 10, number))
        return draw.integers(TOPICS * SUBJECTS, size=BLOCK // PASSAGES_A_DOCUMENT)

    def abstracts(self) -> list[str]:
        """Title and 20 words on each subject."""
        draw = np.random.default_rng((SEED, VERSION, 7))
        texts = self._texts(draw, np.arange(TOPICS * SUBJECTS), np.full(TOPICS * SUBJECTS, 20))
        return [f"{title}\n{text}" for title, text in zip(self.titles, texts, strict=True)]

    def questions(self, count: int) -> list[str]:
        """Different questions of 5 to 20 words, each on one subject."""
        draw = np.random.default_rng((SEED, VERSION, 2))
        written: dict[str, None] = {}
        while len(written) < count:
            written[self._question(draw, int(draw.integers(TOPICS * SUBJECTS)))] = None
        return list(written)

    def _question(self, draw: np.random.Generator, subject: int) -> str:
        asked = int(draw.integers(2, 7))
        own = self._topic_pools[subject // SUBJECTS][draw.integers(TOPIC_POOL, size=asked)]
        general = self._pool[draw.integers(POOL, size=asked)]
        further = np.where(draw.random(asked) < 0.5, own, general)
        named = self._subjects[subject][: int(draw.integers(2, SUBJECT_WORDS + 1))]
        words = OPENINGS[int(draw.integers(len(OPENINGS)))].split()
        for word in dict.fromkeys([*named.tolist(), *further.tolist()]):
            if draw.random() < 0.4 or len(words) < 2:
                words.append(FUNCTION_WORDS[int(draw.integers(24))])
            words.append(self.words[word])
        return " ".join(words)

    def _texts(self, draw: np.random.Generator, subjects: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[str]:
        """A text for each subject and length, as sentences."""
        total = int(lengths.sum())
        ends = np.cumsum(lengths)
        subject = np.repeat(subjects, lengths)
        kind = draw.random(total, dtype=np.float32)
        words = self._pool[draw.integers(POOL, size=total)]
        own = kind < TOPIC_SHARE + SUBJECT_SHARE
        words[own] = self._topic_pools[subject[own] // SUBJECTS, draw.integers(TOPIC_POOL, size=int(own.sum()))]
        named = kind < SUBJECT_SHARE
        words[named] = self._subjects[subject[named], draw.integers(SUBJECT_WORDS, size=int(named.sum()))]
        function = kind > 1 - FUNCTION_SHARE
        words[function] = len(self.words) + self._function_pool[draw.integers(POOL, size=int(function.sum()))]
        last = draw.random(total, dtype=np.float32) < 1 / SENTENCE
        last[ends - 1] = True
        first = np.roll(last, 1)
        last &= ~first  # a sentence has more than one word
        variants = len(self.words) + len(FUNCTION_WORDS)
        written = list(map(self._spellings.__getitem__, (words + variants * (first + 2 * last)).tolist()))
        return [" ".join(written[start:end]) for start, end in pairwise([0, *ends.tolist()])]

    @cached_property
    def titles(self) -> list[str]:
        """Of each subject."""
        return [" ".join(self.words[word] for word in row).capitalize() for row in self._subjects.tolist()]

    @cached_property
    def _spellings(self) -> list[str]:
        """Every word as it stands within a sentence, at its beginning, and at its end."""
        plain = [*self.words, *FUNCTION_WORDS]
        return [*plain, *(word.capitalize() for word in plain), *(f"{word}." for word in plain)]

    @cached_property
    def _pool(self) -> NDArray[np.int64]:
        """Content words, each as often as its frequency says."""
        return _drawn(np.random.default_rng((SEED, VERSION, 3)), len(self.words), MANDELBROT, POOL)

    @cached_property
    def _function_pool(self) -> NDArray[np.int64]:
        return _drawn(np.random.default_rng((SEED, VERSION, 4)), len(FUNCTION_WORDS), 1, POOL)

    @cached_property
    def _subjects(self) -> NDArray[np.int64]:
        """`[subjects, SUBJECT_WORDS]`: neither the commonest words nor invented ones, and no word twice in one."""
        draw = np.random.default_rng((SEED, VERSION, 8))
        ranks = np.arange(COMMON, len(self.words) - NAMES)
        popularity = 1 / ranks
        popularity /= popularity.sum()
        return np.stack(
            [draw.choice(ranks, SUBJECT_WORDS, replace=False, p=popularity) for _ in range(TOPICS * SUBJECTS)]
        )

    @cached_property
    def _topic_pools(self) -> NDArray[np.int64]:
        """`[topics, TOPIC_POOL]`: each topic's words, the rarest as likely to be among them as the commonest."""
        draw = np.random.default_rng((SEED, VERSION, 5))
        ranks = np.exp(draw.uniform(np.log(200), np.log(len(self.words)), (TOPICS, TOPIC_WORDS))).astype(np.int64)
        return np.stack([words[_drawn(draw, TOPIC_WORDS, 5, TOPIC_POOL)] for words in ranks])


def _drawn(draw: np.random.Generator, words: int, offset: float, count: int) -> NDArray[np.int64]:
    popularity = 1 / (np.arange(1, words + 1) + offset)
    return draw.choice(words, count, p=popularity / popularity.sum())


def _names(known: set[str]) -> list[str]:
    """Invented names of two or three syllables, none of them a word already."""
    draw = np.random.default_rng((SEED, VERSION, 6))
    syllables = [onset + rhyme for onset in ONSETS for rhyme in RHYMES]
    parts = draw.integers(len(syllables), size=(2 * NAMES, 3))
    lengths = draw.integers(2, 4, size=2 * NAMES)
    names = dict.fromkeys(
        "".join(syllables[part] for part in row[:length])
        for row, length in zip(parts.tolist(), lengths.tolist(), strict=True)
    )
    return [name for name in names if name not in known][:NAMES]
