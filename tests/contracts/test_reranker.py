"""What every reranker promises: a valid ranking of all candidates, whatever happens to its model or its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.clock import Budget, Clock
from pipeline.ports import Reranker
from rerank.anytime import AnytimeOptions
from rerank.cross_encoder import CrossEncoderReranker
from rerank.model import CrossEncoder, CrossEncoderOptions
from rerank.none import NoReranker
from rerank.scheduler import PairScheduler
from rerank.scorer import PairScorer
from tests.fakes_scorer import FakeScorer
from tests.fakes_shelf import asked, candidates_on, shelf_of

MODEL = Path(__file__).parents[2] / "../shared/models/ce-tiny"
SHELF = shelf_of([5, 40, 3, 17, 9, 60, 2, 33, 8, 21])
OPTIONS = AnytimeOptions()
SCORES = {key: float(key * 7 % 10) for key in range(10)}


@cache
def opened() -> CrossEncoder:
    if not (MODEL / "model.onnx").is_file():
        pytest.skip("../shared/models/ce-tiny is not here")
    model = CrossEncoder.open(CrossEncoderOptions(MODEL, max_tokens=64))
    model.warm_up(OPTIONS.run_tokens)
    return model


SCORERS: dict[str, Callable[[], PairScorer]] = {
    "cross-encoder": opened,
    "fake scorer": lambda: FakeScorer(SCORES),
    "failing": lambda: FakeScorer(SCORES, fail_after=1),
}


@pytest.fixture(params=["none", *SCORERS])
def reranker(request: pytest.FixtureRequest) -> Iterator[Reranker]:
    with ExitStack() as stack:
        if request.param == "none":
            yield NoReranker()
        else:
            yield CrossEncoderReranker(stack.enter_context(PairScheduler(SCORERS[request.param](), OPTIONS)))


@pytest.mark.parametrize("total", [0.0, 0.004, 60.0])
@pytest.mark.parametrize("depth", [0, 3, 10, 50])
async def test_every_candidate_is_ranked_once_and_scores_strictly_fall(
    reranker: Reranker, total: float, depth: int
) -> None:
    keys = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]
    ranking = await reranker.rerank(asked(depth=depth), candidates_on(SHELF, keys), Clock(Budget(total)))
    assert sorted(ranked.candidate.key for ranked in ranking.items) == sorted(keys)
    assert all(before.score > after.score for before, after in pairwise(ranking.items))
    assert [ranked.candidate.key for ranked in ranking.items[depth:]] == keys[depth:]


async def test_what_was_not_scored_is_told(reranker: Reranker) -> None:
    ranking = await reranker.rerank(asked(depth=10), candidates_on(SHELF, range(10)), Clock(Budget(60.0)))
    complete = all(ranked.rerank_score is not None for ranked in ranking.items)
    assert complete == (ranking.degraded == ())


async def test_depth_0_is_off_as_asked(reranker: Reranker) -> None:
    ranking = await reranker.rerank(asked(depth=0), candidates_on(SHELF, range(10)), Clock(Budget(0.0)))
    assert ranking.degraded == ()
    assert [ranked.candidate.key for ranked in ranking.items] == list(range(10))


async def test_the_same_candidates_are_ranked_alike_each_time(reranker: Reranker) -> None:
    first, second = [
        await reranker.rerank(asked(depth=10), candidates_on(SHELF, range(10)), Clock(Budget(60.0))) for _ in range(2)
    ]
    assert [ranked.candidate.key for ranked in first.items] == [ranked.candidate.key for ranked in second.items] or (
        first.degraded != second.degraded
    )


async def test_nothing_found_is_an_empty_ranking(reranker: Reranker) -> None:
    ranking = await reranker.rerank(asked(), candidates_on(SHELF, []), Clock(Budget()))
    assert (ranking.items, ranking.degraded) == ((), ())
