"""Which files are sent, under which names, how many at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetfoot.finding import BYTES_A_REQUEST, FILES_A_REQUEST, batches, files_below
from pipeline.errors import InvalidInput


def write(folder: Path, *names: str, size: int = 1) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as file:
            file.truncate(size)


def test_a_file_is_named_by_its_path_below_the_folder_that_was_named(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "tariffs/a.md", "tariffs/deep/c.md")
    assert [name for name, _ in files_below([tmp_path])] == ["b.md", "tariffs/a.md", "tariffs/deep/c.md"]


def test_a_single_file_is_named_by_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "tariffs/a.md")
    assert files_below([tmp_path / "tariffs" / "a.md"]) == [("a.md", tmp_path / "tariffs" / "a.md")]


def test_hidden_files_and_folders_are_passed_over_unless_named(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".secret", ".git/config", "sub/.cache/b.md")
    assert [name for name, _ in files_below([tmp_path])] == ["a.md"]
    assert [name for name, _ in files_below([tmp_path / ".secret"])] == [".secret"]


@pytest.mark.parametrize("name", ["gone", "empty"])
def test_where_nothing_is_the_path_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=rf"There is no file .*{name}'"):
        files_below([tmp_path / name])


def test_two_files_of_one_name_are_refused_before_one_replaces_the_other(tmp_path: Path) -> None:
    write(tmp_path, "2024/refunds.md", "2026/refunds.md")
    with pytest.raises(InvalidInput, match=r"2024/refunds\.md' and '.*2026/refunds\.md' would both be named"):
        files_below([tmp_path / "2024", tmp_path / "2026"])


def test_a_file_that_was_named_twice_is_sent_once(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    assert files_below([tmp_path, tmp_path / "a.md"]) == [("a.md", tmp_path / "a.md")]


def test_batches_keep_the_order_and_both_limits(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number:03}.md" for number in range(FILES_A_REQUEST * 2 + 1)))
    files = files_below([tmp_path])
    cut = list(batches(files))
    assert [len(batch) for batch in cut] == [FILES_A_REQUEST, FILES_A_REQUEST, 1]
    assert [file for batch in cut for file in batch] == files


def test_a_large_file_goes_alone(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "c.md")
    write(tmp_path, "b.pdf", size=BYTES_A_REQUEST + 1)
    assert [[name for name, _ in batch] for batch in batches(files_below([tmp_path]))] == [
        ["a.md"],
        ["b.pdf"],
        ["c.md"],
    ]
