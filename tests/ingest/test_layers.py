"""When segments are put together: few of them, and each document written a logarithmic number of times."""

from __future__ import annotations

from math import log2

import pytest

from ingest.layers import Layer, LayerOptions, Stack, packed_layers, packed_segment, unpacked_layers, unpacked_segment
from pipeline.ports import SegmentRef

OPTIONS = LayerOptions()
LARGE = 1_000_000


def stack(*deltas: int, base: int = LARGE, dead: int = 0) -> Stack:
    layers = [Layer("base-0", 0, base, 0)]
    layers += [Layer(f"delta-{place}", place, size, 0) for place, size in enumerate(deltas, start=1)]
    return Stack(tuple(layers), base + sum(deltas) - dead)


@pytest.mark.parametrize(
    ("deltas", "added", "taken"),
    [((), 5, 0), ((11,), 5, 0), ((10,), 5, 1), ((100, 10), 5, 1), ((30, 10), 5, 2), ((30, 10), 2, 0)],
)
def test_a_delta_takes_in_those_before_it_that_are_not_much_larger(
    deltas: tuple[int, ...], added: int, taken: int
) -> None:
    assert stack(*deltas).merged(added, OPTIONS, None) == taken


def test_a_delta_that_a_compaction_works_on_is_left_alone_and_so_is_what_lies_below() -> None:
    assert stack(1, 1, 1).merged(1, OPTIONS, after=2) == 1
    assert stack(1, 1, 1).merged(1, OPTIONS, after=3) == 0


def test_there_are_never_more_deltas_than_allowed() -> None:
    sizes = tuple(5**power for power in range(8, 0, -1))
    assert len(sizes) == OPTIONS.deltas
    assert stack(*sizes).merged(1, OPTIONS, None) == 1
    assert stack(*sizes).merged(1, LayerOptions(deltas=3), None) == 6


def test_one_document_after_the_other_is_written_a_logarithmic_number_of_times() -> None:
    publishes, written, deltas = 3000, 0, list[int]()
    for _ in range(publishes):
        taken = stack(*deltas).merged(1, OPTIONS, None)
        merged = 1 + sum(deltas[len(deltas) - taken :])
        deltas = [*deltas[: len(deltas) - taken], merged]
        written += merged
        assert len(deltas) <= OPTIONS.deltas
    assert written / publishes < 2 * log2(publishes)


def test_half_a_collection_is_worth_a_new_base_and_a_document_is_not() -> None:
    assert stack().is_worth_a_base(LARGE // 2 + 1, OPTIONS)
    assert not stack().is_worth_a_base(1, OPTIONS)
    assert not stack(LARGE // 2).is_worth_a_base(1, OPTIONS), "that is for compaction"


def test_a_small_collection_is_written_anew_rather_than_compacted() -> None:
    assert stack(4, base=10).is_worth_a_base(2, OPTIONS)
    assert stack(base=10, dead=6).is_worth_a_base(0, OPTIONS)
    assert not stack(base=10).is_worth_a_base(2, OPTIONS)


def test_layers_and_a_waiting_base_come_back_from_the_catalog_as_they_were() -> None:
    layers = stack(3, 1).layers
    assert unpacked_layers(packed_layers(layers)) == layers
    ref = SegmentRef("base-0", "base", 2, 3, 4.5)
    assert unpacked_segment(packed_segment(ref)) == ref
