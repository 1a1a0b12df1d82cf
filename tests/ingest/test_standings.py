"""How the catalog knows a document, as far as the asker may know."""

from __future__ import annotations

import pytest

from ingest.catalog import Catalog
from pipeline.errors import NotFound
from pipeline.explaining import DocumentState, Standing
from pipeline.passages import Upload
from tests.ingesting import TENANT, Workshop, id_of, ingest, uploads

NOBODY = frozenset[str]()


def of(catalog: Catalog, document: str, labels: frozenset[str] | None = NOBODY) -> Standing:
    return catalog.standing(TENANT, "handbook", document, labels=labels)


def test_a_published_document_is_known_by_name_and_by_id(catalog: Catalog) -> None:
    job = ingest(Workshop(catalog), "handbook", a="one\ntwo")
    by_name = of(catalog, "a")
    assert (by_name.name, by_name.state, by_name.passages) == ("a", DocumentState.PUBLISHED, 2)
    assert (by_name.changing, by_name.job) == (False, job)
    assert of(catalog, by_name.id) == by_name


def test_one_that_is_under_way_says_how_far_it_is(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    job = catalog.accept(TENANT, "handbook", uploads(a="one"))
    assert (of(catalog, "a").state, of(catalog, "a").reason) == (DocumentState.UNDER_WAY, "accepted")
    workshop.parse_step.parse(id_of(catalog, "handbook"))
    assert (of(catalog, "a").reason, of(catalog, "a").job) == ("parsed", job.id)


def test_one_that_failed_says_why(catalog: Catalog) -> None:
    ingest(Workshop(catalog), "handbook", a="BROKEN")
    assert of(catalog, "a").state is DocumentState.FAILED
    assert of(catalog, "a").reason == "'a' is broken."
    catalog.cancel(TENANT, catalog.accept(TENANT, "handbook", uploads(b="two")).id)
    assert (of(catalog, "b").state, of(catalog, "b").reason) == (DocumentState.FAILED, "Its job was cancelled.")


def test_a_published_one_that_is_about_to_change_says_so(catalog: Catalog) -> None:
    ingest(Workshop(catalog), "handbook", a="one")
    catalog.accept(TENANT, "handbook", uploads(a="two"))
    assert (of(catalog, "a").state, of(catalog, "a").changing) == (DocumentState.PUBLISHED, True)


def test_one_that_never_was_or_is_gone_is_unknown(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    catalog.remove(TENANT, "handbook", [of(catalog, "a").id])
    workshop.work()
    for name in ("a", "never"):
        assert of(catalog, name) == Standing("", name, DocumentState.UNKNOWN)
    with pytest.raises(NotFound, match="collection"):
        catalog.standing(TENANT, "handbok", "a", labels=NOBODY)


def test_what_one_may_not_see_is_as_unknown_as_what_never_was(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    catalog.accept(TENANT, "handbook", [Upload("a", b"one", access=("hr",)), Upload("bad", b"BROKEN", access=("hr",))])
    assert of(catalog, "a").state is DocumentState.UNKNOWN
    workshop.work()
    hr = frozenset({"hr", "it"})
    for name, state in (("a", DocumentState.PUBLISHED), ("bad", DocumentState.FAILED)):
        assert of(catalog, name) == Standing("", name, DocumentState.UNKNOWN)
        assert of(catalog, name, hr).state is state
        assert of(catalog, name, None).state is state
    catalog.refresh(TENANT, "handbook")
    catalog.remove(TENANT, "handbook", [of(catalog, "a", None).id], labels=None)
    assert of(catalog, "a").state is DocumentState.UNKNOWN, "what is done to it tells nobody that it is there"
