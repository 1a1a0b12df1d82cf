"""What jobs promise beyond being done: told truly as they go, made once, retried, kept for a while."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pytest
from sqlalchemy import func, select

from ingest.catalog import Catalog, CatalogOptions
from ingest.pace import SEEN, WINDOW
from ingest.promising import KEY_SECONDS
from ingest.retention import Retention
from ingest.schema import uploads as kept_uploads
from pipeline.errors import Conflict, InvalidInput, NoLongerKept, NotFound
from pipeline.jobs import ItemState, JobState, Known, Offer, PassageCounts, Place, Terms, WebhookState
from pipeline.passages import Upload
from tests.conftest import Now
from tests.ingesting import TENANT, Workshop, id_of, ingest, searchable, uploads

KEY = Terms(key="k-1")


def offer(name: str, text: str, **sent: object) -> Offer:
    return Offer(name, sha256(text.encode()).hexdigest(), **sent)  # type: ignore[arg-type]


def kept(catalog: Catalog) -> int:
    """How many uploads the catalog holds."""
    with catalog.database.reading() as connection:
        return connection.scalars(select(func.count()).select_from(kept_uploads)).one()


# Made once


def test_the_same_key_with_the_same_request_is_the_same_job(catalog: Catalog) -> None:
    first = catalog.accept(TENANT, "handbook", uploads(a="one", b="two"), terms=KEY)
    assert catalog.accept(TENANT, "handbook", uploads(a="one", b="two"), terms=KEY) == first
    Workshop(catalog).work()
    again = catalog.accept(TENANT, "handbook", uploads(a="one", b="two"), terms=KEY)
    assert (again.id, again.state) == (first.id, JobState.DONE)
    assert len(catalog.jobs(TENANT)) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda catalog, terms: catalog.accept(TENANT, "handbook", uploads(a="two"), terms=terms),
        lambda catalog, terms: catalog.accept(TENANT, "handbook", uploads(b="one"), terms=terms),
        lambda catalog, terms: catalog.accept(TENANT, "laws", uploads(a="one"), terms=terms),
        lambda catalog, terms: catalog.accept(TENANT, "handbook", [Upload("a", b"one", None, {"x": 1})], terms=terms),
        lambda catalog, terms: catalog.accept(TENANT, "handbook", [Upload("a", b"one", access=("hr",))], terms=terms),
        lambda catalog, terms: catalog.refresh(TENANT, "handbook", terms=terms),
    ],
    ids=["text", "name", "collection", "metadata", "access", "kind"],
)
def test_the_same_key_with_another_request_is_refused_and_names_the_job(
    catalog: Catalog, other: Callable[[Catalog, Terms], object]
) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"), terms=KEY)
    with pytest.raises(Conflict, match=rf"'k-1' has come before.*{job.id}"):
        other(catalog, KEY)
    assert len(catalog.jobs(TENANT)) == 1


def test_a_removal_that_is_sent_again_is_the_same_job_though_the_document_is_gone(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one", b="two")
    gone = next(each.id for each in catalog.documents(TENANT, "handbook") if each.name == "a")
    job = catalog.remove(TENANT, "handbook", [gone], terms=KEY)
    workshop.work()
    assert catalog.remove(TENANT, "handbook", [gone], terms=KEY).id == job.id
    with pytest.raises(NotFound):
        catalog.remove(TENANT, "handbook", [gone])


def test_a_key_belongs_to_its_tenant_and_is_good_for_a_day(catalog: Catalog, now: Now) -> None:
    first = catalog.accept(TENANT, "handbook", uploads(a="one"), terms=KEY)
    theirs = catalog.accept("other", "handbook", uploads(a="something else"), terms=KEY)
    now.pass_by(KEY_SECONDS - 1)
    assert catalog.accept(TENANT, "handbook", uploads(a="one"), terms=KEY).id == first.id
    now.pass_by(1)
    second = catalog.accept(TENANT, "handbook", uploads(a="two"), terms=KEY)
    assert len({first.id, theirs.id, second.id}) == 3


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 129, "a\n"])
def test_a_key_that_no_header_could_carry_is_refused(catalog: Catalog, key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        catalog.accept(TENANT, "handbook", uploads(a="one"), terms=Terms(key=key))
    assert refused.value.field == "Idempotency-Key"


def test_of_many_at_once_with_one_key_a_single_job_comes(catalog_options: CatalogOptions) -> None:
    with Catalog.open(catalog_options):
        pass  # the schema is made once

    def send(number: int) -> str:
        with Catalog.open(catalog_options) as catalog:  # in turn into two collections, which are locked apart
            return catalog.accept(TENANT, "handbook", uploads(a="one"), terms=KEY).id

    with ThreadPoolExecutor(6) as pool:
        ids = set(pool.map(send, range(12)))
    with Catalog.open(catalog_options) as catalog:
        assert [job.id for job in catalog.jobs(TENANT)] == list(ids)


def test_one_key_for_two_collections_at_once_makes_one_job_and_refuses_the_other(
    catalog_options: CatalogOptions,
) -> None:
    with Catalog.open(catalog_options) as catalog:
        for name in ("one", "two"):
            catalog.accept(TENANT, name, uploads(z="z"))

    def send(number: int) -> str:
        with Catalog.open(catalog_options) as catalog:
            try:
                return catalog.accept(TENANT, ("one", "two")[number % 2], uploads(a="x"), terms=KEY).id
            except Conflict:
                return "refused"

    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(send, range(12)))
    assert len(set(told)) == 2
    assert told.count("refused") == 6


def test_the_same_again_without_a_key_is_read_encoded_and_published_by_nobody(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one", b="two")
    parsed, encoded = len(workshop.parser.parsed), len(workshop.encoder.encoded)
    before = catalog.current(TENANT, "handbook")
    catalog.accept(TENANT, "handbook", uploads(a="one", b="two"))
    workshop.work()
    assert (len(workshop.parser.parsed), len(workshop.encoder.encoded)) == (parsed, encoded)
    assert catalog.current(TENANT, "handbook") == before


# Told as they go


def test_passages_are_counted_as_they_are_cut_encoded_and_published(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    job = catalog.accept(TENANT, "handbook", uploads(a="one\ntwo\nthree", b="four", c="BROKEN"))
    collection_id = id_of(catalog, "handbook")
    assert job.passages == PassageCounts()
    workshop.parse_step.parse(collection_id)
    assert catalog.job(TENANT, job.id).passages == PassageCounts(4, 0, 0)
    workshop.encode_step.encode(collection_id)
    assert catalog.job(TENANT, job.id).passages == PassageCounts(4, 4, 0)
    workshop.work()
    assert catalog.job(TENANT, job.id).passages == PassageCounts(4, 4, 4)
    ingest(workshop, "handbook", a="one")
    assert catalog.job(TENANT, job.id).passages == PassageCounts(4, 4, 4), "what was replaced since was published then"
    cut = {item.name: item.passages for item in catalog.items(TENANT, job.id)}
    assert cut == {"a": 3, "b": 1, "c": 0}


def test_nothing_is_said_of_rate_and_time_before_anything_was_seen(catalog: Catalog, now: Now) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one", b="two"))
    now.pass_by(100)
    told = catalog.job(TENANT, job.id)
    assert (told.state, told.rate, told.time_left) == (JobState.ACCEPTED, None, None)


def test_rate_and_time_left_follow_what_was_done_lately(catalog: Catalog, now: Now) -> None:
    """A document of 2 passages each 2 seconds: half a document and a passage a second, 40 s for the other 20."""
    job, workshop = _slow(catalog, now, documents=40, done=20)
    told = catalog.job(TENANT, job)
    assert told.state is JobState.RUNNING
    assert told.rate is not None
    assert told.rate.documents == pytest.approx(0.5, rel=0.15)
    assert told.rate.passages == pytest.approx(1.0, rel=0.15)
    assert told.time_left == pytest.approx(40.0, rel=0.15)
    workshop.work()
    done = catalog.job(TENANT, job)
    assert (done.state, done.time_left) == (JobState.DONE, None)
    assert done.rate is not None
    assert done.rate.documents == pytest.approx(40 / (done.finished - done.accepted), rel=0.01)  # type: ignore[operator]


def test_while_nothing_moves_no_time_is_promised(catalog: Catalog, now: Now) -> None:
    job, _ = _slow(catalog, now, documents=40, done=20)
    now.pass_by(WINDOW)
    told = catalog.job(TENANT, job)
    assert told.rate is not None
    assert (told.rate.documents, told.rate.passages, told.time_left) == (0, 0, None)


def test_a_moment_is_too_short_to_tell_a_rate(catalog: Catalog, now: Now) -> None:
    job, workshop = _slow(catalog, now, documents=40, done=1)
    assert catalog.job(TENANT, job).rate is None
    workshop.parse_step.parse(id_of(catalog, "handbook"))
    now.pass_by(SEEN / 2)
    assert catalog.job(TENANT, job).time_left is None


def _slow(catalog: Catalog, now: Now, *, documents: int, done: int) -> tuple[str, Workshop]:
    """A job of which so many documents were read and encoded, one each 2 seconds."""
    from ingest.backlog import Batch
    from ingest.working import BatchOptions

    one = BatchOptions(Batch(1, 1), Batch(1, 1))
    workshop = Workshop(catalog, options=one)
    texts = {f"d{number:02}": f"first of {number}\nsecond of {number}" for number in range(documents)}
    job = catalog.accept(TENANT, "handbook", uploads(**texts))
    collection_id = id_of(catalog, "handbook")
    for _ in range(done):
        workshop.parse_step.parse(collection_id)
        workshop.encode_step.encode(collection_id)
        now.pass_by(2)
    return job.id, workshop


def test_items_can_be_read_by_state_in_pages(catalog: Catalog) -> None:
    texts = {f"d{number}": "BROKEN" if number % 2 else "text" for number in range(9)}
    job_id = ingest(Workshop(catalog), "handbook", **texts)
    first = catalog.items(TENANT, job_id, limit=3, state=ItemState.FAILED)
    rest = catalog.items(TENANT, job_id, after=first[-1].ordinal, state=ItemState.FAILED)
    assert [item.name for item in (*first, *rest)] == ["d1", "d3", "d5", "d7"]
    assert [item.ordinal for item in first] == [2, 4, 6]


def test_what_could_not_be_read_of_a_document_is_told_when_the_rest_was_published(catalog: Catalog) -> None:
    job_id = ingest(Workshop(catalog), "handbook", a="PARTLY", b="wholly")
    told = {item.name: (item.state, item.warnings) for item in catalog.items(TENANT, job_id)}
    assert told == {
        "a": (ItemState.PUBLISHED, ("Of 'a' page 3 is an image.",)),
        "b": (ItemState.PUBLISHED, ()),
    }


def test_a_job_that_is_cancelled_before_anything_was_done_says_so(catalog: Catalog, now: Now) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"), terms=Terms(webhook="https://example.com/hook"))
    now.pass_by(5)
    told = catalog.cancel(TENANT, job.id)
    assert (told.state, told.finished, told.time_left, told.retryable) == (JobState.CANCELLED, now(), None, 0)
    assert kept(catalog) == 0


# Tried again


def test_what_failed_is_tried_again_without_being_sent_again(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    job_id = ingest(workshop, "handbook", a="one", b="BROKEN", c="three")
    assert catalog.job(TENANT, job_id).retryable == 1
    workshop.parser.mended = True
    retry = catalog.retry(TENANT, job_id)
    assert (retry.state, retry.total, retry.kind) == (JobState.ACCEPTED, 1, "add")
    workshop.work()
    assert catalog.job(TENANT, retry.id).counts == {ItemState.PUBLISHED: 1}
    assert searchable(catalog, "handbook") == ["BROKEN", "one", "three"]
    assert catalog.job(TENANT, job_id).counts == {ItemState.PUBLISHED: 2, ItemState.FAILED: 1}, "history stays"
    assert catalog.job(TENANT, job_id).retryable == 0


def test_a_retry_that_is_asked_for_again_is_the_same_job_for_ever(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    job_id = ingest(workshop, "handbook", a="BROKEN")
    first = catalog.retry(TENANT, job_id)
    now.pass_by(10 * KEY_SECONDS)
    Retention(catalog).purge()
    assert catalog.retry(TENANT, job_id).id == first.id
    workshop.work()
    assert catalog.job(TENANT, first.id).state is JobState.FAILED
    second = catalog.retry(TENANT, first.id)
    assert second.id not in {first.id, job_id}


def test_a_retry_brings_back_neither_what_was_replaced_nor_what_was_removed(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", b="old b")
    job_id = ingest(workshop, "handbook", a="BROKEN a", b="BROKEN b", c="BROKEN c")
    ingest(workshop, "handbook", a="new a")
    catalog.remove(TENANT, "handbook", [each.id for each in catalog.documents(TENANT, "handbook") if each.name == "b"])
    workshop.work()
    workshop.parser.mended = True
    retry = catalog.retry(TENANT, job_id)
    workshop.work()
    assert searchable(catalog, "handbook") == ["BROKEN c", "new a"]
    told = {item.name: item for item in catalog.items(TENANT, retry.id)}
    assert [told[name].state for name in "abc"] == [ItemState.UNCHANGED, ItemState.UNCHANGED, ItemState.PUBLISHED]
    assert "sent again" in told["a"].reason


def test_there_has_to_be_something_to_retry(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    fine = ingest(workshop, "handbook", a="one")
    waiting = catalog.accept(TENANT, "handbook", uploads(b="two")).id
    with pytest.raises(Conflict, match="Nothing failed"):
        catalog.retry(TENANT, fine)
    with pytest.raises(Conflict, match="is not over yet"):
        catalog.retry(TENANT, waiting)
    with pytest.raises(NotFound):
        catalog.retry(TENANT, "nothing")
    with pytest.raises(NotFound):
        catalog.retry("other", fine)
    broken = ingest(workshop, "handbook", c="BROKEN")
    ingest(workshop, "handbook", c="mended")
    with pytest.raises(Conflict, match="sent again or removed since"):
        catalog.retry(TENANT, broken)


def test_what_is_not_kept_any_more_says_what_to_do(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    job_id = ingest(workshop, "handbook", a="BROKEN")
    now.pass_by(catalog.options.failed_seconds - 1)
    assert Retention(catalog).purge() == 0
    assert catalog.job(TENANT, job_id).retryable == 1
    now.pass_by(1)
    assert Retention(catalog).purge() == 1
    assert catalog.job(TENANT, job_id).retryable == 0
    with pytest.raises(NoLongerKept, match=rf"Send those documents again.*{job_id}/failed.csv"):
        catalog.retry(TENANT, job_id)


def test_of_a_retry_what_is_gone_fails_again_and_the_rest_is_tried(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    job_id = ingest(workshop, "handbook", a="BROKEN a", b="BROKEN b")
    first = next(item for item in catalog.items(TENANT, job_id) if item.name == "a")
    with catalog.database.writing() as connection:
        gone = select(kept_uploads.c.item_id).order_by(kept_uploads.c.item_id).limit(1).scalar_subquery()
        connection.execute(kept_uploads.delete().where(kept_uploads.c.item_id == gone))
    workshop.parser.mended = True
    retry = catalog.retry(TENANT, job_id)
    workshop.work()
    told = catalog.job(TENANT, retry.id)
    assert told.counts == {ItemState.FAILED: 1, ItemState.PUBLISHED: 1}
    assert [(item.name, item.document_id) for item in told.failed] == [("a", first.document_id)]
    assert "Send it again" in told.failed[0].reason


def test_only_the_latest_bytes_of_what_failed_are_kept_and_nothing_of_what_is_done(
    catalog_options: CatalogOptions, now: Now
) -> None:
    from dataclasses import replace

    with Catalog.open(replace(catalog_options, failed_bytes=25), now) as catalog:
        workshop = Workshop(catalog)
        jobs = []
        for number in range(4):
            jobs.append(ingest(workshop, "handbook", **{f"d{number}": f"BROKEN {number:03}", f"e{number}": "fine"}))
            now.pass_by(1)
        assert kept(catalog) == 8
        assert Retention(catalog).purge() == 6, "of 4 that failed, of 10 bytes each, the 2 oldest; and 4 that are done"
        assert [catalog.job(TENANT, job).retryable for job in jobs] == [0, 0, 1, 1]
        assert Retention(catalog).purge() == 0


def test_a_document_that_was_given_up_can_be_retried_too(catalog: Catalog, now: Now) -> None:
    workshop = Workshop(catalog)
    job = catalog.accept(TENANT, "handbook", uploads(a="SURPRISE"))
    for _ in range(catalog.options.attempts):
        with pytest.raises(ValueError, match="nobody foresaw"):
            workshop.work()
        now.pass_by(60)
    workshop.work()
    assert catalog.job(TENANT, job.id).state is JobState.FAILED
    workshop.parser.mended = True
    retry = catalog.retry(TENANT, job.id)
    workshop.work()
    assert catalog.job(TENANT, retry.id).state is JobState.DONE


def test_nothing_is_kept_of_a_deleted_collection(catalog: Catalog) -> None:
    job_id = ingest(Workshop(catalog), "handbook", a="BROKEN", b="one")
    catalog.delete_collection(TENANT, "handbook")
    assert kept(catalog) == 0
    with pytest.raises(NotFound):
        catalog.retry(TENANT, job_id)
    ingest(Workshop(catalog), "handbook", c="three")
    with pytest.raises(NoLongerKept, match="was deleted after job"):
        catalog.retry(TENANT, job_id)


# Known already


def test_what_is_published_or_on_its_way_need_not_be_sent(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    assert catalog.unneeded(TENANT, "handbook", [offer("a", "one")]) == ()
    ingest(workshop, "handbook", a="one", b="two", c="BROKEN")
    coming = catalog.accept(TENANT, "handbook", uploads(d="four", b="three"))
    offers = [offer("a", "one"), offer("b", "two"), offer("c", "BROKEN"), offer("d", "four"), offer("e", "five")]
    assert set(catalog.unneeded(TENANT, "handbook", offers)) == {Known("a"), Known("d", coming.id)}
    assert set(catalog.unneeded(TENANT, "handbook", [offer("b", "three")])) == {Known("b", coming.id)}
    assert catalog.unneeded("other", "handbook", offers) == ()
    workshop.work()
    both = catalog.unneeded(TENANT, "handbook", [offer("b", "three"), offer("a", "one")])
    assert set(both) == {Known("a"), Known("b")}


def test_what_would_be_sent_otherwise_is_not_known(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    sent = {"metadata": {"year": 2031, "tags": ("x",)}, "access": ("hr",)}
    catalog.accept(TENANT, "handbook", [Upload("a", b"one", **sent)])  # type: ignore[arg-type]
    for _ in range(2):  # on its way, then published
        assert [each.name for each in catalog.unneeded(TENANT, "handbook", [offer("a", "one", **sent)])] == ["a"]
        assert catalog.unneeded(TENANT, "handbook", [offer("a", "one")]) == ()
        workshop.work()


def test_what_is_being_removed_has_to_be_sent_again(catalog: Catalog) -> None:
    ingest(Workshop(catalog), "handbook", a="one")
    catalog.remove(TENANT, "handbook", [each.id for each in catalog.documents(TENANT, "handbook")])
    assert catalog.unneeded(TENANT, "handbook", [offer("a", "one")]) == ()


def test_texts_that_a_collection_has_are_found_where_one_may_see_them(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one\ntwo", b="two\nthree", c="two")
    catalog.accept(TENANT, "handbook", [Upload("secret", b"hidden", access=("hr",))])
    workshop.work()
    ids = {each.name: each.id for each in catalog.documents(TENANT, "handbook", labels=None)}
    texts = {text: _hash_of(workshop, catalog, text) for text in ("one", "two", "hidden")}
    content = [sha256(b"two").hexdigest(), sha256(b"hidden").hexdigest()]
    found = catalog.repeated(TENANT, "handbook", content, list(texts.values()))
    assert found.documents == {content[0]: (Place(ids["c"], "c"),)}
    assert found.passages == {
        texts["one"]: (Place(ids["a"], "a", 0),),
        texts["two"]: (Place(ids["a"], "a", 1), Place(ids["b"], "b", 0)),
    }
    insider = catalog.repeated(TENANT, "handbook", content, [texts["hidden"]], frozenset({"hr"}))
    assert insider.passages == {texts["hidden"]: (Place(ids["secret"], "secret"),)}
    assert catalog.repeated(TENANT, "nowhere", content, list(texts.values())).documents == {}


def _hash_of(workshop: Workshop, catalog: Catalog, text: str) -> str:
    from ingest.schema import passages

    with catalog.database.reading() as connection:
        return connection.scalars(select(passages.c.content_hash).where(passages.c.text == text).limit(1)).one()


# Told of the end


def test_a_webhook_stands_in_its_job(catalog: Catalog) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"), terms=Terms(webhook="https://example.com/hook"))
    assert job.webhook is not None
    assert job.webhook.url == "https://example.com/hook"
    assert (job.webhook.state, job.webhook.attempts, job.webhook.due) == (WebhookState.WAITING, 0, None)
    assert catalog.accept(TENANT, "handbook", uploads(a="one")).webhook is None
