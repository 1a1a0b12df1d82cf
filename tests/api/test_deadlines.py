"""Each stage of a retrieval is held up in turn: what it costs is told, the answer comes, and nothing late is a 500.

The stages are the real ones, over small generations, and their lanes are kept busy; only the reranker and the encoder
are slow on purpose. The stage in question may use a thousandth of a deadline of 30 s, the others have all of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from context.duplicates import DuplicateGrouper
from context.packing import BudgetPacker
from context.sizes import TokenSizer
from pipeline.clock import Clock, Lap, Stage
from pipeline.errors import OutOfTime
from pipeline.lane import Lane, LaneOptions
from pipeline.passages import Candidates, Degraded, Query, Ranking
from pipeline.profile import Profile, Rerank, Reserve
from rerank.merging import as_fused
from rerank.none import NoReranker
from tests.fakes_api import FakeGenerator, Gate, Running, Service, events
from tests.fakes_encoder import FakeEncoder
from tests.fakes_shelf import make_passage
from tests.generations import published
from tests.searching import Searching, searching, until

TEXTS = ("the night tram leaves at six", "the night ferry leaves at nine", "soup is free on sundays")
LAWS = ("trams give way to ambulances",)
DEADLINE = 30_000  # milliseconds that no loaded machine misses
SLIVER = 0.001  # of it, for the stage that is held up
QUESTION = "night tram"


class StuckReranker:
    """Never gets to a score, and says so."""

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:
        with suppress(OutOfTime):
            async with clock.lap(Stage.RERANK):
                await asyncio.Event().wait()
        return Ranking(as_fused(candidates).items, (Degraded(Stage.RERANK, "out_of_time", "scored 0"),))


@dataclass
class Behind:
    """The stages of a service, of which a test can hold up each."""

    search: Searching
    context: Lane
    opening: Lane
    released: threading.Event = field(default_factory=threading.Event)
    held: list[asyncio.Task[bool]] = field(default_factory=list)

    async def hold_up(self, stage: Stage) -> None:
        """From here on the stage gets nowhere, until the test is over."""
        lanes = {
            Stage.ADMIT: self.opening,
            Stage.LEXICAL: self.search.lexical,
            Stage.DENSE: self.search.dense,
            Stage.DUPLICATES: self.context,
        }
        if stage is Stage.ENCODE:
            self.search.encoder.gate.clear()
        elif stage in lanes:
            lane = lanes[stage]
            lap = Lap(stage, 0.0, inf)
            self.held.append(asyncio.create_task(lane.run(lap, lambda _: self.released.wait(60))))
            await until(partial(self.is_held, lane))

    @staticmethod
    def is_held(lane: Lane) -> bool:
        return lane.busy == 1 and lane.waiting == 0


@contextmanager
def stages(folder: Path) -> Generator[Behind, None, None]:
    """The handbook and the laws, published."""

    def vectors(texts: tuple[str, ...]) -> np.ndarray:
        return np.stack([FakeEncoder().vector(text) for text in texts])

    handbook = [make_passage(f"h{n}", 0, text, language="en") for n, text in enumerate(TEXTS)]
    laws = [make_passage(f"l{n}", 0, text, language="en") for n, text in enumerate(LAWS)]
    with ExitStack() as opened:
        search = opened.enter_context(
            searching(
                published(folder, handbook, vectors(TEXTS)),
                published(folder, laws, vectors(LAWS), collection="laws", number=3),
            )
        )
        context = opened.enter_context(Lane(LaneOptions("context")))
        behind = Behind(search, context, search.opening)
        try:
            yield behind
        finally:
            behind.released.set()
            search.encoder.gate.set()


@asynccontextmanager
async def service(folder: Path, late: Stage | None = None, **given: object) -> AsyncGenerator[tuple[Service, Behind]]:
    """A service whose profile gives the late stage next to nothing, and the others what is left."""
    with stages(folder) as behind:
        shares = {} if late is None else {late: SLIVER}
        depth = Rerank(depth=50 if late is Stage.RERANK else 0)
        profile = Profile(rerank=depth, deadline=DEADLINE / 1000, shares=shares, reserve=Reserve(0.0, SLIVER))
        wired: dict[str, object] = {
            "retriever": behind.search.retriever,
            "reranker": StuckReranker() if late is Stage.RERANK else NoReranker(),
            "grouper": DuplicateGrouper(behind.context, in_place=0),
            "sizer": TokenSizer(),
            "packer": BudgetPacker(),
            "profiles": {"default": profile},
        }
        async with Running(**{**wired, **given}) as running:
            await behind.search.generations.open_all([("default", "handbook")])
            yield running, behind
            behind.released.set()
            await asyncio.gather(*behind.held)


async def asked(service: Service, status: int = 200, **body: object) -> Any:
    """The only result of a retrieval, or the error."""
    async with await service.retrieve(query=QUESTION, **body) as response:
        told = await response.json()
        assert response.status == status, told
        return told["results"][0] if status == 200 else told["error"]


def laps(result: Any) -> dict[str, Any]:
    return {lap["stage"]: lap for lap in result["timings"]["laps"]}


def given_up(result: Any) -> list[tuple[str, str]]:
    return [(each["stage"], each["reason"]) for each in result["degraded"]]


@pytest.mark.parametrize("late", [Stage.ENCODE, Stage.LEXICAL, Stage.DENSE, Stage.RERANK, Stage.DUPLICATES])
async def test_a_stage_that_is_late_costs_what_it_would_have_added_and_not_the_answer(
    late: Stage, tmp_path: Path
) -> None:
    async with service(tmp_path, late) as (running, behind):
        await behind.hold_up(late)
        result = await asked(running)
    assert "h0" in {passage["document_id"] for passage in result["passages"]}
    assert given_up(result) == [(late, "out_of_time")]
    assert result["degraded"][0]["detail"]
    lap = laps(result)[late]
    assert lap["cut"]
    assert lap["granted_ms"] == DEADLINE * SLIVER
    assert not any(other["cut"] for stage, other in laps(result).items() if stage != late)


@pytest.mark.parametrize("late", [Stage.LEXICAL, Stage.DENSE, Stage.DUPLICATES])
async def test_a_stage_that_never_got_a_thread_waited_and_did_not_work(late: Stage, tmp_path: Path) -> None:
    async with service(tmp_path, late) as (running, behind):
        await behind.hold_up(late)
        lap = laps(await asked(running))[late]
    assert lap["waited_ms"] > lap["worked_ms"]


async def test_when_searching_takes_all_there_is_the_rest_is_given_up_and_the_answer_comes_from_the_reserve(
    tmp_path: Path,
) -> None:
    async with service(tmp_path) as (running, behind):
        await behind.hold_up(Stage.DENSE)
        result = await asked(running, deadline_ms=600)
    assert result["passages"]
    assert given_up(result) == [("dense", "out_of_time"), ("duplicates", "out_of_time"), ("sizes", "out_of_time")]
    late = laps(result)
    assert [late[stage]["granted_ms"] for stage in ("duplicates", "sizes")] == [0, 0]
    assert "pack" in late


async def test_only_when_no_leg_answers_in_time_the_request_fails_and_names_what_was_late(tmp_path: Path) -> None:
    async with service(tmp_path) as (running, behind):
        await behind.hold_up(Stage.LEXICAL)
        await behind.hold_up(Stage.ENCODE)
        told = await asked(running, 504, deadline_ms=60)
    assert told["code"] == "out_of_time"
    assert "'lexical'" in told["message"]
    assert "Raise deadline_ms" in told["message"]


async def test_a_collection_that_is_not_opened_in_time_is_a_504_where_it_is_the_only_one(tmp_path: Path) -> None:
    async with service(tmp_path, Stage.ADMIT) as (running, behind):
        await behind.hold_up(Stage.ADMIT)
        told = await asked(running, 504, collection="laws")
    assert "'admit'" in told["message"]


async def test_a_collection_that_is_not_opened_in_time_costs_itself_and_not_the_others(tmp_path: Path) -> None:
    async with service(tmp_path, Stage.ADMIT) as (running, behind):
        await behind.hold_up(Stage.ADMIT)
        result = await asked(running, collection=None, collections=["laws", "handbook"])
    assert result["generation"] == "handbook@1"
    assert given_up(result) == [("admit", "out_of_time")]
    assert "'laws'" in result["degraded"][0]["detail"]


async def test_a_collection_that_nobody_could_wait_for_is_open_for_whoever_asks_next(tmp_path: Path) -> None:
    async with service(tmp_path, Stage.ADMIT) as (running, behind):
        await behind.hold_up(Stage.ADMIT)
        for _ in range(3):
            await asked(running, 504, collection="laws")
        looked = behind.search.current.asked
        behind.released.set()
        await until(lambda: len(behind.search.generations.states()) == 2)
        assert behind.search.current.asked == looked + 1, "three who gave up are one look at the catalog"
        assert (await asked(running, collection="laws"))["generation"] == "laws@3"


async def test_an_unknown_collection_is_told_in_a_chat_without_asking_the_catalog_again(tmp_path: Path) -> None:
    async with service(tmp_path) as (running, _), await running.chat(model="nowhere") as response:
        told = (await response.json())["error"]
    assert response.status == 404
    assert "'nowhere'" in told["message"]
    assert "handbook" in told["message"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_chat_that_is_late_in_finding_answers_from_what_was_found(stream: bool, tmp_path: Path) -> None:
    async with service(tmp_path, Stage.ENCODE) as (running, behind):
        await behind.hold_up(Stage.ENCODE)
        async with await running.chat(QUESTION, stream=stream, stream_events=stream) as response:
            assert response.status == 200
            if stream:
                told = [data for _, data in await events(response)]
                assert told[-1] == "[DONE]"
                assert '"reason":"out_of_time"' in told[-2]
            else:
                assert given_up((await response.json())["fleetfoot"]) == [("encode", "out_of_time")]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_chat_whose_search_is_late_altogether_is_a_504(stream: bool, tmp_path: Path) -> None:
    async with service(tmp_path) as (running, behind):
        await behind.hold_up(Stage.LEXICAL)
        await behind.hold_up(Stage.ENCODE)
        async with await running.chat(QUESTION, stream=stream, deadline_ms=60) as response:
            assert response.status == 504
            assert (await response.json())["error"]["code"] == "out_of_time"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_first_token_that_is_late_is_a_504(stream: bool, tmp_path: Path) -> None:
    silent = FakeGenerator()
    silent.before_first = Gate(opened=False)
    async with (
        service(tmp_path, generator=silent) as (running, _),
        await running.chat(QUESTION, stream=stream, deadline_ms=500) as response,
    ):
        assert response.status == 504
        assert "'first_token'" in (await response.json())["error"]["message"]
    assert silent.closed.is_set()


@pytest.mark.parametrize("route", ["retrieve", "chat"])
@pytest.mark.parametrize("deadline", ["soon", "", "-1", "0", "nan", "inf", "1e999", "60001"])
async def test_a_deadline_in_the_header_that_is_none_is_named(route: str, deadline: str, tmp_path: Path) -> None:
    async with service(tmp_path) as (running, _):
        body: dict[str, object] = {"query": QUESTION, "collection": "handbook"}
        path = "/v1/retrieve"
        if route == "chat":
            body, path = (
                {"model": "handbook", "messages": [{"role": "user", "content": QUESTION}]},
                "/v1/chat/completions",
            )
        headers = {"X-Request-Deadline-Ms": deadline}
        async with running.client.post(running.url + path, json=body, headers=headers) as response:
            assert response.status == 400
            told = (await response.json())["error"]
    assert told["param"] == "X-Request-Deadline-Ms"
    assert deadline in told["message"]
    assert "60000" in told["message"] or "above 0" in told["message"]
