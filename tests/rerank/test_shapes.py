"""Runs hold every pair once, within their tokens, and share only where that saves time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.shapes import Buckets, Shape, grouped

LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=16)
ANY, GPU = Buckets(), Buckets(step=64, least_rows=8)


def shape(rows: int, longest: int) -> Shape:
    return ANY.around(rows, longest, 256)


def dear_to_begin(run: Shape) -> float:
    return 500 + run.tokens


def by_the_token(run: Shape) -> float:
    return float(run.tokens)


@given(LENGTHS, st.integers(1, 500), st.sampled_from([dear_to_begin, by_the_token]))
def test_runs_hold_every_pair_once_within_their_tokens(lengths, run_tokens, cost) -> None:
    runs = grouped(lengths, shape, run_tokens, cost)
    assert sorted(place for run in runs for place in run) == list(range(len(lengths)))
    for run in runs:
        assert len(run) == 1 or len(run) * max(lengths[place] for place in run) <= run_tokens
        assert [lengths[place] for place in run] == sorted(lengths[place] for place in run)


@given(LENGTHS)
def test_nothing_is_shared_where_a_run_costs_what_its_tokens_cost(lengths: list[int]) -> None:
    assert all(len(run) == 1 for run in grouped(lengths, shape, 10_000, by_the_token))


@given(LENGTHS, st.integers(1, 500))
def test_sharing_never_costs_more_than_running_alone(lengths: list[int], run_tokens: int) -> None:
    def cost(runs: list[list[int]]) -> float:
        return sum(dear_to_begin(shape(len(run), max(lengths[place] for place in run))) for run in runs)

    runs = grouped(lengths, shape, run_tokens, dear_to_begin)
    assert cost(runs) <= cost([[place] for place in range(len(lengths))])


@pytest.mark.parametrize(
    ("rows", "longest", "held"),
    [(1, 5, Shape(8, 64)), (8, 64, Shape(8, 64)), (9, 65, Shape(16, 128)), (40, 200, Shape(64, 250))],
)
def test_a_gpu_runs_few_shapes_and_none_longer_than_the_model_reads(rows: int, longest: int, held: Shape) -> None:
    assert GPU.around(rows, longest, 250) == held


@given(st.integers(1, 64), st.integers(1, 256))
def test_every_shape_that_a_gpu_may_meet_was_warmed_up(rows: int, longest: int) -> None:
    met = GPU.around(rows, longest, 256)
    if met.tokens <= 64 * 256:
        assert met in GPU.warm_ups(256, 64 * 256)


def test_a_cpu_is_warmed_up_from_short_to_as_long_as_the_model_reads() -> None:
    shapes = ANY.warm_ups(200, 256)
    assert {shape.length for shape in shapes} == {32, 64, 128, 192, 200}
    assert all(shape.tokens <= 256 for shape in shapes)
