"""What the catalog promises to those who send documents and watch jobs, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest.catalog import Catalog, CatalogOptions
from pipeline.errors import InvalidInput, NotFound
from pipeline.jobs import ItemState, JobState
from pipeline.passages import Upload
from tests.conftest import Now
from tests.fakes_ingest import LineChunker, texts_in
from tests.ingesting import TENANT, Workshop, id_of, ingest, searchable, uploads


def test_what_was_accepted_is_there_after_a_restart(catalog_options: CatalogOptions) -> None:
    with Catalog.open(catalog_options) as before:
        job = before.accept(TENANT, "handbook", uploads(a="one", b="two"))
    with Catalog.open(catalog_options) as after:
        Workshop(after).work()
        assert after.job(TENANT, job.id).state is JobState.DONE
        assert searchable(after, "handbook") == ["one", "two"]


def test_the_backlog_is_what_was_accepted_and_is_not_done(catalog: Catalog) -> None:
    assert catalog.unfinished() == 0
    catalog.accept(TENANT, "handbook", uploads(a="one", b="BROKEN"))
    catalog.accept("other", "handbook", uploads(c="three"))
    assert catalog.unfinished() == 3
    Workshop(catalog).work()
    assert catalog.unfinished() == 0


def test_a_new_job_waits_with_all_its_documents(catalog: Catalog) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one", b="two"))
    assert (job.state, job.total, job.counts) == (JobState.ACCEPTED, 2, {ItemState.ACCEPTED: 2})
    assert (job.finished, job.generation, job.collection) == (None, None, "handbook")
    assert catalog.job(TENANT, job.id) == job


def test_nothing_is_kept_of_an_upload_that_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match=r"documents\[1\]"):
        catalog.accept(TENANT, "handbook", [Upload("a", b"one"), Upload("", b"two")])
    assert catalog.jobs(TENANT) == ()
    assert catalog.collections(TENANT) == ()


@pytest.mark.parametrize("name", ["", "a b", "../x", "a@b", "ä", "-a", "a" * 65])
def test_a_collection_that_could_not_stand_in_a_url_is_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a collection"):
        catalog.accept(TENANT, name, uploads(a="one"))


@pytest.mark.parametrize("value", [math.nan, math.inf, None, {"a": 1}, "a\x00b"])
def test_metadata_that_no_filter_could_use_is_refused_with_its_place(catalog: Catalog, value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        catalog.accept(TENANT, "handbook", [Upload("a", b"one", metadata={"key": value})])  # type: ignore[dict-item]
    assert (refused.value.field or "").startswith("documents[0].metadata")


def test_no_documents_are_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        catalog.accept(TENANT, "handbook", [])


def test_a_job_ends_with_the_generation_in_which_everything_is_searchable(catalog: Catalog) -> None:
    job = catalog.job(TENANT, ingest(Workshop(catalog), "handbook", a="one\ntwo", b="three"))
    current = catalog.current(TENANT, "handbook")
    assert current is not None
    assert (job.state, job.counts, job.generation) == (JobState.DONE, {ItemState.PUBLISHED: 2}, current.number)
    assert job.finished is not None
    assert catalog.collection(TENANT, "handbook").passages == 3
    assert searchable(catalog, "handbook") == ["one", "three", "two"]


def test_a_bad_document_fails_alone_with_its_reason(catalog: Catalog) -> None:
    job = catalog.job(TENANT, ingest(Workshop(catalog), "handbook", a="one", b="BROKEN", c="three"))
    assert (job.state, job.counts) == (JobState.DONE, {ItemState.PUBLISHED: 2, ItemState.FAILED: 1})
    assert [(item.name, item.reason) for item in job.failed] == [("b", "'b' is broken.")]
    assert searchable(catalog, "handbook") == ["one", "three"]


def test_a_job_fails_when_every_document_does(catalog: Catalog) -> None:
    job = catalog.job(TENANT, ingest(Workshop(catalog), "handbook", a="BROKEN", b="BROKEN"))
    assert (job.state, job.generation) == (JobState.FAILED, None)
    assert catalog.current(TENANT, "handbook") is None


def test_the_same_again_costs_nothing(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    first = catalog.job(TENANT, ingest(workshop, "handbook", a="one", b="two"))
    parsed, encoded = len(workshop.parser.parsed), len(workshop.encoder.encoded)
    second = catalog.job(TENANT, ingest(workshop, "handbook", a="one", b="two"))
    assert (second.state, second.counts) == (JobState.DONE, {ItemState.UNCHANGED: 2})
    assert second.generation == first.generation
    assert (len(workshop.parser.parsed), len(workshop.encoder.encoded)) == (parsed, encoded)


def test_other_metadata_makes_it_another_document_but_encodes_nothing(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    catalog.accept(TENANT, "handbook", [Upload("a", b"one", metadata={"year": 2031, "tags": ("x", "y")})])
    workshop.work()
    (document,) = catalog.documents(TENANT, "handbook")
    assert document.metadata == {"year": 2031, "tags": ("x", "y")}
    assert workshop.encoder.encoded == ["one"]


def test_the_same_name_replaces_and_only_new_text_is_encoded(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one\ntwo", b="four")
    ingest(workshop, "handbook", a="two\nthree")
    assert searchable(catalog, "handbook") == ["four", "three", "two"]
    assert sorted(workshop.encoder.encoded) == ["four", "one", "three", "two"]
    assert catalog.collection(TENANT, "handbook").documents == 2


def test_one_text_under_two_names_is_two_documents_and_one_vector(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one", b="one")
    assert searchable(catalog, "handbook") == ["one", "one"]
    assert workshop.encoder.encoded == ["one"]


def test_the_last_upload_of_a_name_has_the_last_word(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    catalog.accept(TENANT, "handbook", [Upload("a", b"old"), Upload("a", b"new")])
    catalog.accept(TENANT, "handbook", uploads(a="newest"))
    workshop.work()
    assert searchable(catalog, "handbook") == ["newest"]
    assert {job.state for job in catalog.jobs(TENANT)} == {JobState.DONE}


def test_going_back_to_what_is_published_is_not_lost_behind_a_change_under_way(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    catalog.accept(TENANT, "handbook", uploads(a="two"))
    catalog.accept(TENANT, "handbook", uploads(a="one"))
    workshop.work()
    assert searchable(catalog, "handbook") == ["one"]


def test_an_empty_document_is_published_without_passages(catalog: Catalog) -> None:
    job = catalog.job(TENANT, ingest(Workshop(catalog), "handbook", a=""))
    assert (job.state, catalog.collection(TENANT, "handbook").documents) == (JobState.DONE, 1)
    assert searchable(catalog, "handbook") == []


def test_removing_the_last_document_publishes_an_empty_generation(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    (document,) = catalog.documents(TENANT, "handbook")
    before = catalog.current(TENANT, "handbook")
    job = catalog.remove(TENANT, "handbook", [document.id])
    workshop.work()
    after = catalog.current(TENANT, "handbook")
    assert before is not None
    assert after is not None
    assert after.number > before.number
    assert (searchable(catalog, "handbook"), catalog.job(TENANT, job.id).generation) == ([], after.number)
    assert catalog.documents(TENANT, "handbook") == ()


def test_a_removal_waits_for_the_upload_before_it(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    accepted = catalog.accept(TENANT, "handbook", uploads(a="one", b="two"))
    (a, _) = catalog.items(TENANT, accepted.id)
    catalog.remove(TENANT, "handbook", [a.document_id])
    workshop.work()
    assert searchable(catalog, "handbook") == ["two"]


def test_an_unknown_document_cannot_be_removed_and_the_known_are_named(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    (document,) = catalog.documents(TENANT, "handbook")
    with pytest.raises(NotFound) as refused:
        catalog.remove(TENANT, "handbook", [document.id, "nothing"])
    assert refused.value.known == (document.id,)
    assert len(catalog.jobs(TENANT)) == 1


def test_a_cancelled_job_leaves_what_was_published_as_it_was(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    job = catalog.accept(TENANT, "handbook", uploads(a="two", b="three"))
    cancelled = catalog.cancel(TENANT, job.id)
    workshop.work()
    assert (cancelled.state, catalog.job(TENANT, job.id)) == (JobState.CANCELLED, cancelled)
    assert searchable(catalog, "handbook") == ["one"]


def test_cancelling_a_finished_job_changes_nothing(catalog: Catalog) -> None:
    job_id = ingest(Workshop(catalog), "handbook", a="one")
    assert catalog.cancel(TENANT, job_id) == catalog.job(TENANT, job_id)
    assert catalog.job(TENANT, job_id).state is JobState.DONE


def test_a_deleted_collection_is_gone_and_its_jobs_are_cancelled(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    done = ingest(workshop, "handbook", a="one")
    waiting = catalog.accept(TENANT, "handbook", uploads(b="two"))
    catalog.delete_collection(TENANT, "handbook")
    workshop.work()
    with pytest.raises(NotFound):
        catalog.current(TENANT, "handbook")
    assert catalog.job(TENANT, waiting.id).state is JobState.CANCELLED
    assert catalog.items(TENANT, waiting.id)[0].reason == "The collection was deleted."
    assert catalog.job(TENANT, done).state is JobState.DONE


def test_a_deleted_collection_may_be_made_again_and_starts_empty(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    catalog.delete_collection(TENANT, "handbook")
    ingest(workshop, "handbook", b="two")
    assert searchable(catalog, "handbook") == ["two"]


def test_tenants_know_nothing_of_each_other(catalog: Catalog) -> None:
    job_id = ingest(Workshop(catalog), "handbook", a="one")
    with pytest.raises(NotFound):
        catalog.job("other", job_id)
    with pytest.raises(NotFound) as refused:
        catalog.collection("other", "handbook")
    assert refused.value.known == ()
    assert catalog.collections("other") == ()
    assert catalog.jobs("other") == ()


def test_an_unknown_collection_names_the_known_ones(catalog: Catalog) -> None:
    for name in ("laws", "handbook"):
        catalog.accept(TENANT, name, uploads(a="one"))
    with pytest.raises(NotFound, match=r"There is no collection 'handbok'. Known: handbook, laws."):
        catalog.current(TENANT, "handbok")


def test_earlier_generations_are_known_as_long_as_they_are_kept(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    for text in ("one", "two", "three"):
        ingest(workshop, "handbook", a=text)
    found = catalog.earlier(TENANT, "handbook", before=3)
    assert [(ref.collection, ref.number) for ref in found] == [("handbook", 2), ("handbook", 1)]
    assert [texts_in(ref.folder) for ref in found] == [["two"], ["one"]]
    assert catalog.earlier("others", "handbook", before=3) == ()
    assert catalog.earlier(TENANT, "laws", before=3) == ()


def test_documents_and_items_come_in_pages_without_gap_or_repetition(catalog: Catalog) -> None:
    texts = {f"d{number}": f"text {number}" for number in range(7)}
    job_id = ingest(Workshop(catalog), "handbook", **texts)
    seen: list[str] = []
    while page := catalog.documents(TENANT, "handbook", after=seen[-1] if seen else None, limit=3):
        seen += [document.id for document in page]
    assert (len(seen), sorted(seen)) == (7, sorted(set(seen)))
    names: list[str] = []
    while part := catalog.items(TENANT, job_id, after=len(names), limit=3):
        names += [item.name for item in part]
    assert names == list(texts)


def test_jobs_come_latest_first_and_by_collection(catalog: Catalog, now: Now) -> None:
    ids = []
    for name in ("handbook", "laws", "handbook"):
        ids.append(catalog.accept(TENANT, name, uploads(a="one")).id)
        now.pass_by(1)
    assert [job.id for job in catalog.jobs(TENANT)] == ids[::-1]
    assert [job.id for job in catalog.jobs(TENANT, "handbook")] == [ids[2], ids[0]]
    assert [job.id for job in catalog.jobs(TENANT, limit=1)] == [ids[2]]


def test_many_may_create_one_collection_at_once(catalog_options: CatalogOptions) -> None:
    def send(number: int) -> str:
        with Catalog.open(catalog_options) as catalog:
            return catalog.accept(TENANT, "handbook", uploads(**{f"d{number}": "text"})).id

    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(send, range(12)))
    with Catalog.open(catalog_options) as catalog:
        assert len(catalog.collections(TENANT)) == 1
        assert {job.id for job in catalog.jobs(TENANT)} == set(ids)


def test_the_same_documents_make_the_same_generation_in_whatever_order_they_came(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "one", a="x", b="y", c="z")
    ingest(workshop, "two", c="z")
    ingest(workshop, "two", b="y", a="x")
    assert searchable(catalog, "one") == searchable(catalog, "two") == ["x", "y", "z"]


def test_another_chunker_cuts_anew_what_was_parsed_before(catalog: Catalog) -> None:
    ingest(Workshop(catalog), "handbook", a="one\ntwo", b="three")
    other = Workshop(catalog, chunker=LineChunker("lines-2"))
    job = catalog.refresh(TENANT, "handbook")
    other.work()
    done = catalog.job(TENANT, job.id)
    assert (done.kind, done.state, done.counts) == ("refresh", JobState.DONE, {ItemState.PUBLISHED: 2})
    assert (other.parser.parsed, other.encoder.encoded) == ([], [])
    assert searchable(catalog, "handbook") == ["one", "three", "two"]
    again = catalog.refresh(TENANT, "handbook")
    other.work()
    assert catalog.job(TENANT, again.id).counts == {ItemState.UNCHANGED: 2}
    assert searchable(catalog, "handbook") == ["one", "three", "two"]


def test_a_refresh_that_changes_nothing_is_done_when_a_new_generation_serves(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one", b="two")
    before = [(each.id, each.updated) for each in catalog.documents(TENANT, "handbook")]
    damaged = catalog.current(TENANT, "handbook")
    job = catalog.refresh(TENANT, "handbook")
    collection_id = id_of(catalog, "handbook")
    while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
        pass
    assert catalog.job(TENANT, job.id).state is JobState.RUNNING
    workshop.work()
    done, current = catalog.job(TENANT, job.id), catalog.current(TENANT, "handbook")
    assert damaged is not None
    assert current is not None
    assert current.number > damaged.number
    assert (done.counts, done.generation) == ({ItemState.UNCHANGED: 2}, current.number)
    assert searchable(catalog, "handbook") == ["one", "two"]
    assert [(each.id, each.updated) for each in catalog.documents(TENANT, "handbook")] == before
    assert workshop.encoder.encoded == ["one", "two"]


def test_a_refresh_publishes_even_nothing_and_even_when_it_is_cancelled(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one")
    cancelled = catalog.refresh(TENANT, "handbook")
    catalog.cancel(TENANT, cancelled.id)
    workshop.work()
    second = catalog.current(TENANT, "handbook")
    assert second is not None
    assert second.number == 2
    (document,) = catalog.documents(TENANT, "handbook")
    catalog.remove(TENANT, "handbook", [document.id])
    workshop.work()
    emptied = catalog.refresh(TENANT, "handbook")
    workshop.work()
    fourth = catalog.current(TENANT, "handbook")
    assert fourth is not None
    assert (emptied.total, fourth.number, searchable(catalog, "handbook")) == (0, 4, [])


def test_a_document_that_is_replaced_or_removed_while_it_is_kept_does_not_come_back(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="old", b="gone", c="same")
    catalog.refresh(TENANT, "handbook")
    workshop.parse_step.parse(id_of(catalog, "handbook"))
    catalog.accept(TENANT, "handbook", uploads(a="new"))
    gone = next(each.id for each in catalog.documents(TENANT, "handbook") if each.name == "b")
    catalog.remove(TENANT, "handbook", [gone])
    workshop.work()
    assert searchable(catalog, "handbook") == ["new", "same"]
    assert sorted(each.name for each in catalog.documents(TENANT, "handbook")) == ["a", "c"]


def test_cutting_anew_never_brings_back_what_is_being_replaced(catalog: Catalog) -> None:
    ingest(Workshop(catalog), "handbook", a="old", b="other")
    catalog.accept(TENANT, "handbook", uploads(a="new"))
    job = catalog.refresh(TENANT, "handbook")
    Workshop(catalog, chunker=LineChunker("lines-2")).work()
    assert job.total == 1
    assert searchable(catalog, "handbook") == ["new", "other"]
