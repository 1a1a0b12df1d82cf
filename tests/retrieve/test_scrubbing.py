"""A bit that a disk has lost is found although nobody touched the file, and what it was in serves no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.clock import Budget, Clock
from pipeline.errors import Damaged
from pipeline.lane import Lane, LaneOptions
from pipeline.ports import GenerationRef
from retrieve.generation import Generation
from retrieve.scrubbing import Scrubber, ScrubOptions
from retrieve.segment import OpenSegments
from retrieve.serving import Generations
from retrieve.verifying import Verifier
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, changed, file_of, published
from tests.retrieve.test_verifying import harmed_unseen
from tests.searching import FakeCurrent

PASSAGES = [make_passage(f"doc{number}", 0, f"tram number {number}") for number in range(9)]
NEW = [make_passage("doc3", 0, "ferry number 3")]


@contextmanager
def scrubbed(tmp_path: Path, current: FakeCurrent) -> Iterator[tuple[Generations, Scrubber]]:
    verifier, shared = Verifier(tmp_path / "stamps"), OpenSegments()

    def opens(ref: GenerationRef) -> Generation:
        return Generation.open(ref, embedder=EMBEDDER, verifier=verifier, shared=shared)

    with Lane(LaneOptions("opening")) as opening, Lane(LaneOptions("verify")) as lane:
        generations = Generations(current, opens, earlier=current, opening=opening, searching=opening)
        yield generations, Scrubber(generations, verifier, shared, lane, ScrubOptions(rest_seconds=0))


async def serving(generations: Generations) -> str:
    return (await generations.shelf("default", ("handbook",), Clock(Budget()))).generation


async def test_an_earlier_generation_takes_over_from_one_that_is_found_damaged(tmp_path: Path) -> None:
    before = published(tmp_path, PASSAGES)
    after = changed(before, NEW)
    current = FakeCurrent({("default", "handbook"): after}, kept=[before])
    with scrubbed(tmp_path, current) as (generations, scrubber):
        assert await serving(generations) == "handbook@2"
        await scrubber.scrub()
        assert await serving(generations) == "handbook@2"
        harmed_unseen(file_of(after, "vectors.npy"))
        await generations.refresh()
        assert await serving(generations) == "handbook@2", "nothing tells"
        await scrubber.scrub()
        for _ in range(2):
            assert await serving(generations) == "handbook@1"
            (state,) = generations.states()
            assert "vectors.npy" in state.problem
            await generations.refresh()


async def test_where_all_share_what_is_damaged_nothing_serves_until_it_is_made_anew(tmp_path: Path) -> None:
    before = published(tmp_path, PASSAGES)
    after = changed(before, NEW)
    current = FakeCurrent({("default", "handbook"): after}, kept=[before])
    with scrubbed(tmp_path, current) as (generations, scrubber):
        await serving(generations)
        harmed_unseen(file_of(before, "posting_rows.npy"))
        await scrubber.scrub()
        with pytest.raises(Damaged, match=r"posting_rows\.npy"):
            await serving(generations)
        current.refs["default", "handbook"] = published(tmp_path, PASSAGES, number=3)
        await generations.refresh()
        assert await serving(generations) == "handbook@3"


async def test_a_round_forgets_stamps_of_what_is_gone_and_runs_again_and_again(tmp_path: Path) -> None:
    current = FakeCurrent({("default", "handbook"): published(tmp_path, PASSAGES)})
    slept: list[float] = []

    class Over(Exception):
        pass

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise Over

    with scrubbed(tmp_path, current) as (generations, scrubber):
        await serving(generations)
        (tmp_path / "stamps" / "base-1.2.json").write_text("{}")
        scrubber._sleep = sleep
        with pytest.raises(Over):
            await scrubber.run()
    assert slept == [ScrubOptions().every_seconds] * 3
    assert len(list((tmp_path / "stamps").iterdir())) == 1
