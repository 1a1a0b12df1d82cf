"""Arrivals and popularity: what is drawn has the shape that is promised, and the seed decides it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from math import exp, log
from pathlib import Path

import pytest

from benchmarks.load.arrivals import poisson, warm_up_for, warm_up_of
from benchmarks.load.queries import SAMPLE, Zipf, fingerprint, in_order, read
from pipeline.errors import InvalidInput
from tests.recordings import PLAN, paced


def test_arrivals_come_at_their_rate() -> None:
    instants = poisson(50, 400, seed=3)
    assert abs(len(instants) - 20_000) < 4 * 20_000**0.5  # four standard deviations of a Poisson count
    assert instants == sorted(instants)
    assert 0 <= instants[0] < instants[-1] < 400


def test_gaps_between_arrivals_are_exponential() -> None:
    """Kolmogorov and Smirnov's distance from the exponential distribution, at the level of one in a thousand."""
    gaps = sorted(after - before for before, after in pairwise(poisson(50, 400, seed=3)))
    count = len(gaps)
    distance = max(
        max(abs(place / count - (1 - exp(-50 * gap))), abs((place + 1) / count - (1 - exp(-50 * gap))))
        for place, gap in enumerate(gaps)
    )
    assert distance < 1.95 / count**0.5


def test_the_same_seed_sends_at_the_same_instants_and_another_does_not() -> None:
    assert poisson(50, 10, seed=3) == poisson(50, 10, seed=3)
    assert poisson(50, 10, seed=3) != poisson(50, 10, seed=4)


def test_a_warm_up_lies_before_and_moves_nothing_that_counts() -> None:
    assert all(-5 <= instant < 0 for instant in warm_up_for(50, 5, seed=3))
    assert len(warm_up_of(50, 17, seed=3)) == 17
    assert all(instant < 0 for instant in warm_up_of(50, 17, seed=3))
    longer = replace(PLAN, warm_up=30)
    assert longer.schedule() == PLAN.schedule()
    assert list(islice(longer.draws(), 100)) == list(islice(PLAN.draws(), 100))


def test_a_query_of_rank_r_is_asked_in_proportion_to_one_by_r_to_the_exponent() -> None:
    zipf = Zipf(100, 1.0, seed=7)
    asked = Counter(islice(zipf.draws(7), 100_000))
    counts = [count for _, count in asked.most_common(10)]
    harmonic = sum(1 / rank for rank in range(1, 101))
    for rank, count in enumerate(counts, 1):
        wanted = 100_000 / rank / harmonic
        assert abs(count - wanted) < 5 * wanted**0.5, rank
    slope = log(counts[0] / counts[7]) / log(8)
    assert slope == pytest.approx(1.0, abs=0.05)


def test_without_an_exponent_all_queries_are_alike_popular() -> None:
    asked = Counter(islice(Zipf(50, 0.0, seed=7).draws(7), 50_000))
    assert len(asked) == 50
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in asked.values())


def test_the_first_lines_of_a_file_are_not_the_popular_ones() -> None:
    most = [Counter(islice(Zipf(1000, 1.2, seed).draws(seed), 500)).most_common(1)[0][0] for seed in range(8)]
    assert len(set(most)) > 4


def test_neither_rate_nor_callers_change_what_is_asked() -> None:
    faster, closed = paced(PLAN, 200.0), paced(PLAN, None, 8)
    first = list(islice(PLAN.draws(), 200))
    assert list(islice(faster.draws(), 200)) == first == list(islice(closed.draws(), 200))


def test_in_order_every_query_is_asked_once_before_any_comes_again() -> None:
    assert list(islice(in_order(3), 7)) == [0, 1, 2, 0, 1, 2, 0]


def test_queries_are_read_from_lines_and_from_the_layout_of_beir(tmp_path: Path) -> None:
    lines = tmp_path / "queries.txt"
    lines.write_text("lost property\n\n refund \nrefund\n")
    assert read(lines) == ("lost property", "refund")
    rows = "".join(json.dumps({"_id": text, "text": text}) + "\n" for text in ("a b", "c d"))
    beir = tmp_path / "queries.jsonl"
    beir.write_text(rows)
    packed = tmp_path / "queries.jsonl.gz"
    packed.write_bytes(gzip.compress(rows.encode()))
    assert read(beir) == read(packed) == ("a b", "c d")
    assert fingerprint(read(beir)) == fingerprint(read(packed)) != fingerprint(read(lines))


def test_without_a_file_the_sample_handbooks_questions_are_asked() -> None:
    assert len(read(SAMPLE)) == 60


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.txt", "\n\n", "holds no query"),
        ("bad.jsonl", '{"text": "a"}\n{"title": "b"}\n', "Line 2 of"),
        ("worse.jsonl", '{"text": \n', "Line 1 of"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_line(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidInput, match=said):
        read(tmp_path / name)


def test_a_file_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.txt"):
        read(tmp_path / "nowhere.txt")
