"""A document's rows are found by its id alone, whatever else is in the segment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retrieve.document_rows import DocumentRows, DocumentRowsBuilder

IDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)


def rows_of(document_ids: list[str]) -> DocumentRows:
    builder = DocumentRowsBuilder()
    for document_id in document_ids:
        builder.add(document_id)
    return builder.build()


def nobody() -> np.ndarray:
    return np.empty(0, np.int64)


@given(st.lists(st.sampled_from(["a", "b", "ab", "é", "zzz", "0"]), max_size=30), st.sets(IDS, max_size=3))
def test_rows_are_those_of_a_scan(row_ids: list[str], strangers: set[str]) -> None:
    found = rows_of(row_ids)
    wanted = {*row_ids[::2], *strangers}
    doomed = found.rows_of(wanted, nobody())
    assert doomed.rows.tolist() == [row for row, document_id in enumerate(row_ids) if document_id in wanted]
    assert doomed.documents == len(wanted & set(row_ids))


def test_rows_that_are_dead_do_not_die_again() -> None:
    found = rows_of(["a", "a", "b", "c", "c"])
    doomed = found.rows_of(["a", "c"], np.array([0, 1]))
    assert (doomed.rows.tolist(), doomed.documents) == ([3, 4], 1)


def test_runs_of_a_document_are_listed_by_row() -> None:
    assert rows_of(["a", "b", "b", "a"]).runs_of("a").tolist() == [[0, 1], [3, 4]]
    assert rows_of(["a", "b", "b", "a"]).runs_of("b").tolist() == [[1, 3]]
    assert rows_of(["a"]).runs_of("a very long name that no document has").tolist() == []


def test_nothing_has_no_documents() -> None:
    assert rows_of([]).rows_of(["a"], nobody()).rows.tolist() == []


def test_documents_are_counted_once() -> None:
    builder = DocumentRowsBuilder()
    for document_id in ("a", "b", "a"):
        builder.add(document_id)
    assert builder.documents == 2
