"""What the catalog promises about access labels, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from ingest.catalog import Catalog
from ingest.database import packed_labels
from pipeline.errors import InvalidInput, NotFound
from pipeline.jobs import ItemState
from pipeline.passages import Upload
from tests.ingesting import TENANT, Workshop

LABELS = ("hr", "HR", "hr2", "führung", "a/b", "100_percent", "x.y")


def with_access(*names: str, access: tuple[str, ...] = (), content: bytes = b"one") -> list[Upload]:
    return [Upload(name, content, access=access) for name in names]


def names(catalog: Catalog, *labels: str) -> list[str]:
    return sorted(document.name for document in catalog.documents(TENANT, "handbook", labels=frozenset(labels)))


def test_documents_are_listed_to_those_who_carry_one_of_their_labels(catalog: Catalog) -> None:
    sets = list(chain.from_iterable(combinations(LABELS, size) for size in range(3)))
    uploads = [Upload("+".join(access) or "open", b"one", access=access) for access in sets]
    catalog.accept(TENANT, "handbook", uploads)
    Workshop(catalog).work()
    for labels in (*sets, LABELS):
        wanted = [upload.name for upload in uploads if not upload.access or set(upload.access) & set(labels)]
        assert names(catalog, *labels) == sorted(wanted)
    assert len(catalog.documents(TENANT, "handbook", labels=None)) == len(uploads)


def test_a_page_of_documents_is_full_whatever_is_hidden_between(catalog: Catalog) -> None:
    catalog.accept(TENANT, "handbook", with_access(*"abcdefgh", access=("hr",)) + with_access(*"stuvwxyz"))
    Workshop(catalog).work()
    seen: list[str] = []
    while page := catalog.documents(TENANT, "handbook", after=seen[-1] if seen else None, limit=3):
        seen += [document.id for document in page]
    assert len(seen) == 8
    assert len(catalog.documents(TENANT, "handbook", limit=3)) == 3


def test_a_document_that_may_not_be_seen_is_not_there(catalog: Catalog) -> None:
    catalog.accept(TENANT, "handbook", with_access("secret", access=("hr",)) + with_access("open"))
    Workshop(catalog).work()
    (secret,) = [each for each in catalog.documents(TENANT, "handbook", labels=None) if each.name == "secret"]
    assert secret.access == ("hr",)
    assert catalog.document(TENANT, "handbook", secret.id, labels=frozenset({"hr"})) == secret
    for labels in (frozenset[str](), frozenset({"it"})):
        for look in (
            lambda labels=labels: catalog.document(TENANT, "handbook", secret.id, labels=labels),
            lambda labels=labels: catalog.remove(TENANT, "handbook", [secret.id], labels=labels),
        ):
            with pytest.raises(NotFound) as refused:
                look()
            assert secret.id not in refused.value.known
    assert names(catalog, "hr") == ["open", "secret"]
    catalog.remove(TENANT, "handbook", [secret.id], labels=frozenset({"hr"}))
    Workshop(catalog).work()
    assert names(catalog, "hr") == ["open"]


def test_items_of_a_job_carry_the_labels_that_their_documents_do(catalog: Catalog) -> None:
    job = catalog.accept(TENANT, "handbook", with_access("a", access=("it", "hr", "hr")))
    assert [item.access for item in catalog.items(TENANT, job.id)] == [("hr", "it")]
    Workshop(catalog).work()
    (document,) = catalog.documents(TENANT, "handbook", labels=None)
    removal = catalog.remove(TENANT, "handbook", [document.id], labels=None)
    assert [item.access for item in catalog.items(TENANT, removal.id)] == [("hr", "it")]


def test_other_labels_are_a_change_and_the_same_in_another_order_are_none(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    states = []
    for access in (("hr", "it"), ("it", "hr"), ("hr",), ()):
        job = catalog.accept(TENANT, "handbook", with_access("a", access=access))
        workshop.work()
        states.append(next(iter(catalog.job(TENANT, job.id).counts)))
        (document,) = catalog.documents(TENANT, "handbook", labels=None)
        assert document.access == tuple(sorted(access))
    assert states == [ItemState.PUBLISHED, ItemState.UNCHANGED, ItemState.PUBLISHED, ItemState.PUBLISHED]


def test_labels_outlive_a_refresh(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    catalog.accept(TENANT, "handbook", with_access("a", access=("hr",)))
    workshop.work()
    catalog.refresh(TENANT, "handbook")
    workshop.work()
    assert names(catalog) == []
    assert names(catalog, "hr") == ["a"]


@pytest.mark.parametrize("label", ["", " ", "a b", 'a"', "a,b", "_a", "-", "a" * 65, "a\n", "[]"])
def test_what_cannot_be_a_label_is_refused_with_its_place(catalog: Catalog, label: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be an access label") as refused:
        catalog.accept(TENANT, "handbook", with_access("a") + with_access("b", access=("hr", label)))
    assert refused.value.field == "documents[1].access[1]"


def test_no_label_is_written_unchecked_whoever_writes_it() -> None:
    assert packed_labels(("hr", "board", "hr")) == '["board","hr"]'
    with pytest.raises(InvalidInput, match="cannot be an access label"):
        packed_labels(('a","b',))


def test_a_document_has_a_bounded_number_of_labels(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="33 labels"):
        catalog.accept(TENANT, "handbook", with_access("a", access=tuple(f"l{number}" for number in range(33))))
