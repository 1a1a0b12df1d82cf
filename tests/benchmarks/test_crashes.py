"""The crash part of the proof, in its quick form."""

from __future__ import annotations

from benchmarks.crashes.flips import flip_everywhere


def test_a_flipped_byte_in_any_file_is_found_and_hurts_nothing_before_it() -> None:
    figures = flip_everywhere(offsets=2)
    assert figures.missed == ()
    assert figures.flips > figures.files > 20
