import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from pipeline.answering import Answering
from pipeline.clock import Budget, Clock, Stage
from pipeline.errors import OutOfTime
from pipeline.passages import (
    Caller,
    Candidate,
    Candidates,
    Context,
    Groups,
    Hit,
    Leg,
    Neighbours,
    Passage,
    Prompt,
    Query,
    Ranked,
    Ranking,
    Sizes,
    Token,
)
from pipeline.profile import Profile

QUERY = Query("where is the ferry", Caller(), ("handbook",), Profile())


class EmptyShelf:
    generation = "handbook@1"
    tokenizer = "none"

    def passages(self, keys: Sequence[int]) -> tuple[Passage, ...]:
        return ()

    def content_hashes(self, keys: Sequence[int]) -> tuple[str, ...]:
        return tuple("" for _ in keys)

    def tokens(self, keys: Sequence[int]) -> tuple[int, ...]:
        return tuple(1 for _ in keys)

    def token_ids(self, keys: Sequence[int]) -> tuple[memoryview, ...]:
        return tuple(memoryview(b"") for _ in keys)

    def near_duplicates(self, keys: Sequence[int], similarity: float) -> tuple[int, ...]:
        return tuple(range(len(keys)))

    def neighbours(self, keys: Sequence[int]) -> tuple[Neighbours, ...]:
        return tuple(Neighbours() for _ in keys)


CANDIDATES = Candidates((Candidate(7, 1.0, (Hit(Leg.DENSE, 1, 0.9),)),), EmptyShelf())


class Retriever:
    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        return CANDIDATES


class Meeting:
    """Nobody goes on before all three have arrived: whoever runs them one after another waits for ever."""

    def __init__(self) -> None:
        self._all = asyncio.Barrier(3)

    async def attend(self, stage: Stage, clock: Clock) -> None:
        async with clock.lap(stage):
            await self._all.wait()


@dataclass
class Three:
    """Reranker, grouper and sizer in one, meeting in the middle."""

    meeting: Meeting

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:
        await self.meeting.attend(Stage.RERANK, clock)
        return Ranking(tuple(Ranked(item, item.score) for item in candidates.items))

    async def group(self, query: Query, candidates: Candidates, clock: Clock) -> Groups:
        await self.meeting.attend(Stage.DUPLICATES, clock)
        return Groups({})

    async def size(self, query: Query, candidates: Candidates, clock: Clock) -> Sizes:
        await self.meeting.attend(Stage.SIZES, clock)
        return Sizes({7: 1})


class Broken(Three):
    async def size(self, query: Query, candidates: Candidates, clock: Clock) -> Sizes:
        raise ValueError("broken")


class Packer:
    def pack(self, query: Query, candidates: Candidates, ranking: Ranking, groups: Groups, sizes: Sizes) -> Context:
        return Context((), 0, generation=candidates.shelf.generation)


class Prompter:
    def prompt(self, query: Query, context: Context) -> Prompt:
        return Prompt((), context, query.text)


@dataclass
class Speaker:
    """A generator that says what it is given, and knows whether it was closed."""

    words: list[str]
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        try:
            for word in self.words:
                yield Token(word)
        finally:
            self.closed.set()


class Silent:
    """A model that never gets to its first token."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        try:
            await asyncio.Event().wait()
            yield Token("never")
        finally:
            self.closed.set()


def answering(three: Three) -> Answering:
    return Answering(Retriever(), three, three, three, Packer(), Prompter())


async def test_reranking_grouping_and_sizing_run_side_by_side() -> None:
    clock = Clock(Budget(10.0))
    found = await answering(Three(Meeting())).find(QUERY, clock)
    assert found.context.generation == "handbook@1"
    laps = {timing.stage: timing for timing in clock.timings}
    side_by_side = [laps[Stage.RERANK], laps[Stage.DUPLICATES], laps[Stage.SIZES]]
    last_begin = max(lap.started for lap in side_by_side)
    assert all(last_begin < lap.started + lap.waited + lap.worked for lap in side_by_side)
    assert laps[Stage.PACK].started >= last_begin


async def test_one_broken_stage_is_raised_as_itself_and_ends_the_others() -> None:
    clock = Clock(Budget(10.0))
    with pytest.raises(ValueError, match="broken"):
        await answering(Broken(Meeting())).find(QUERY, clock)
    assert {timing.stage for timing in clock.timings} == {Stage.RERANK, Stage.DUPLICATES}


async def test_the_first_token_is_there_before_the_answer_begins() -> None:
    speaker, clock = Speaker(["on", "the", "lake"]), Clock(Budget(10.0))
    story = answering(Three(Meeting()))
    found = await story.find(QUERY, clock)
    async with story.answer(QUERY, found, speaker, clock) as answer:
        assert answer.first == Token("on")
        assert [token.text async for token in answer.tokens] == ["the", "lake"]
    assert Stage.FIRST_TOKEN in {timing.stage for timing in clock.timings}


async def test_a_model_with_nothing_to_say_gives_an_empty_answer_and_no_error() -> None:
    story, clock = answering(Three(Meeting())), Clock(Budget(10.0))
    found = await story.find(QUERY, clock)
    async with story.answer(QUERY, found, Speaker([]), clock) as answer:
        assert answer.first is None


async def test_leaving_an_answer_closes_the_generator_at_once() -> None:
    speaker, clock = Speaker(["on", "the", "lake"]), Clock(Budget(10.0))
    story = answering(Three(Meeting()))
    found = await story.find(QUERY, clock)
    async with story.answer(QUERY, found, speaker, clock):
        pass
    assert speaker.closed.is_set()


async def test_a_late_first_token_is_out_of_time_and_ends_the_generator() -> None:
    silent, clock = Silent(), Clock(Budget(10.0, {Stage.FIRST_TOKEN: 0.001}))
    story = answering(Three(Meeting()))
    found = await story.find(QUERY, clock)
    with pytest.raises(OutOfTime) as late:
        async with story.answer(QUERY, found, silent, clock):
            pass
    assert late.value.stage == Stage.FIRST_TOKEN
    assert silent.closed.is_set()
