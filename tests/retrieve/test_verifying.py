"""Every segment is read through once on a host; a scrub reads it again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pipeline.errors import Damaged
from pipeline.ports import GenerationRef
from retrieve.generation import Generation
from retrieve.manifest import Manifest
from retrieve.verifying import Verifier
from tests.fakes_shelf import make_passage
from tests.generations import EMBEDDER, changed, file_of, published

PASSAGES = [make_passage(f"doc{number}", 0, f"tram number {number}") for number in range(9)]


def harmed_unseen(file: Path, at: int = -1) -> None:
    """As by a disk: neither size nor times tell."""
    state, content = file.stat(), bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def open_by(verifier: Verifier, ref: GenerationRef) -> Generation:
    return Generation.open(ref, embedder=EMBEDDER, verifier=verifier)


def test_a_generation_that_shares_a_verified_segment_verifies_what_is_new(tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "stamps")
    before = published(tmp_path, PASSAGES)
    open_by(verifier, before)
    harmed_unseen(file_of(before, "vectors.npy"))
    after = changed(before, [make_passage("doc3", 0, "ferry number 3")])
    assert open_by(verifier, after).rows == 9, "the base's stamp is believed"
    again = changed(after, [make_passage("doc4", 0, "ferry number 4")])
    harmed_unseen(file_of(again, "vectors.npy"))
    with pytest.raises(Damaged, match=r"delta-.*vectors\.npy"):
        open_by(verifier, again)


def test_a_scrub_finds_what_stamps_hide_and_nobody_believes_the_stamp_then(tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "stamps")
    ref = changed(published(tmp_path, PASSAGES), gone=["doc1"])
    open_by(verifier, ref)
    manifest, rests = Manifest.read(ref), 0

    def rest() -> None:
        nonlocal rests
        rests += 1

    verifier.scrub(ref, manifest, rest)
    assert rests == 17
    harmed_unseen(file_of(ref, "tokens.npy"))
    open_by(verifier, ref)
    with pytest.raises(Damaged, match=r"tokens\.npy"):
        verifier.scrub(ref, manifest)
    with pytest.raises(Damaged, match=r"tokens\.npy"):
        open_by(verifier, ref)


def test_a_header_that_makes_no_sense_is_damage_whatever_the_stamp_says(tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "stamps")
    ref = published(tmp_path, PASSAGES)
    open_by(verifier, ref)
    harmed_unseen(file_of(ref, "tokens.npy"), 100)
    with pytest.raises(Damaged, match=r"base-\w+ cannot be opened"):
        open_by(verifier, ref)


def test_equal_segments_of_two_collections_have_stamps_of_their_own(tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "stamps")
    one, other = published(tmp_path / "a", PASSAGES), published(tmp_path / "b", PASSAGES)
    assert one.digest == other.digest
    open_by(verifier, one)
    harmed_unseen(file_of(other, "hashes.npy"))
    with pytest.raises(Damaged, match=r"hashes\.npy"):
        open_by(verifier, other)


def test_stamps_of_removed_segments_go(tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "stamps")
    one, other = published(tmp_path / "a", PASSAGES), published(tmp_path / "b", PASSAGES)
    open_by(verifier, one)
    open_by(verifier, other)
    shutil.rmtree(other.folder.parent)
    assert (verifier.forget_removed(), verifier.forget_removed()) == (1, 0)
    assert len(list((tmp_path / "stamps").iterdir())) == 1
    assert Verifier(None).forget_removed() == 0
