"""Another cut: readers see the old one until the new one is complete, and no text is encoded twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingest.backlog import Backlog, Batch, Step
from ingest.catalog import Catalog
from ingest.working import BatchOptions
from pipeline.chunking import Chunking, chunking_of
from pipeline.errors import InvalidInput, NotFound
from pipeline.jobs import ItemState, JobState
from pipeline.passages import Document, Upload
from tests.conftest import Now
from tests.fakes_chunkers import ChunkersByChoice
from tests.fakes_ingest import LineChunker, PlainParser
from tests.ingesting import TENANT, Workshop, id_of, ingest, searchable, uploads

WORDS = chunking_of("tokens", 100)
SMALL = BatchOptions(parsed=Batch(1, 1), encoded=Batch(1, 1))
LINES = {"a": "one two\nthree", "b": "four five", "c": "six seven"}
ALL_LINES = ["four five", "one two", "six seven", "three"]
ALL_WORDS = ["five", "four", "one", "seven", "six", "three", "two"]


def workshop_of(catalog: Catalog, options: BatchOptions | None = None) -> Workshop:
    return Workshop(catalog, chunkers=ChunkersByChoice(), options=options)


def choose(catalog: Catalog, chunking: Chunking | None = WORDS) -> str:
    """Returns the job's id."""
    job = catalog.choose_chunking(TENANT, "handbook", chunking)
    assert job is not None
    return job.id


def steps(workshop: Workshop, now: Now) -> Iterator[list[str]]:
    """Does one thing after the other, waiting for nobody, and tells after each what readers see."""
    for _ in range(200):
        due = workshop.backlog.due()
        if not due:
            return
        does = {
            Step.PARSE: workshop.parse_step.parse,
            Step.ENCODE: workshop.encode_step.encode,
            Step.PUBLISH: workshop.publish_step.publish,
        }
        does[due[0].step](due[0].collection_id)
        now.pass_by(60)
        yield searchable(workshop.catalog, "handbook")
    raise AssertionError("the work never ends")


def test_only_texts_that_were_never_encoded_are_encoded(catalog: Catalog) -> None:
    workshop = workshop_of(catalog)
    ingest(workshop, "handbook", a="one two\nthree", b="three\nfour")
    workshop.encoder.encoded.clear()
    job = choose(catalog)
    workshop.work()
    assert searchable(catalog, "handbook") == ["four", "one", "three", "three", "two"]
    assert sorted(workshop.encoder.encoded) == ["one", "two"], "three and four are passages already"
    assert catalog.job(TENANT, job).state is JobState.DONE
    assert workshop.parser.parsed == ["a", "b"], "nothing is parsed again"
    workshop.encoder.encoded.clear()
    choose(catalog, None)
    workshop.work()
    assert searchable(catalog, "handbook") == ["four", "one two", "three", "three"]
    assert workshop.encoder.encoded == []


def test_readers_see_the_old_cut_until_the_new_one_is_complete(catalog: Catalog, now: Now) -> None:
    workshop = workshop_of(catalog, SMALL)
    ingest(workshop, "handbook", **LINES)
    choose(catalog)
    seen = list(steps(workshop, now))
    assert len(seen) > 6, "one document after the other"
    assert seen[-1] == ALL_WORDS
    assert seen == [ALL_LINES] * (len(seen) - 1) + [ALL_WORDS]


def test_what_is_sent_meanwhile_is_cut_anew_and_does_not_wait(catalog: Catalog, now: Now) -> None:
    workshop, slow = workshop_of(catalog, SMALL), Backlog(catalog, "slow")
    ingest(workshop, "handbook", **LINES)
    collection_id = id_of(catalog, "handbook")
    job = choose(catalog)
    workshop.parse_step.parse(collection_id)
    held = slow.claim(collection_id, ItemState.ACCEPTED, Batch(9, 10**6))
    assert len(held) == 2, "somebody takes his time over the re-cut of two documents"
    catalog.accept(TENANT, "handbook", uploads(a="eight nine", d="ten ten"))
    assert workshop.parse_step.parse(collection_id) + workshop.parse_step.parse(collection_id) == 2
    while workshop.encode_step.encode(collection_id):
        pass
    now.pass_by(catalog.options.publish_seconds)
    assert [due.step for due in workshop.backlog.due()] == [Step.PUBLISH]
    workshop.publish_step.publish(collection_id)
    assert searchable(catalog, "handbook") == ["eight", "four five", "nine", "six seven", "ten", "ten"]
    assert workshop.backlog.due() == (), "what is held back is no reason to publish"
    assert catalog.job(TENANT, job).state is JobState.RUNNING
    slow.give_back(held)
    for seen in steps(workshop, now):
        assert "four five" not in seen or "six seven" in seen
    assert searchable(catalog, "handbook") == ["eight", "five", "four", "nine", "seven", "six", "ten", "ten"]


def test_a_re_cut_never_undoes_a_later_upload(catalog: Catalog, now: Now) -> None:
    """The re-cut of `a` is ready and waits for `b`; meanwhile somebody sends `a` anew, or removes it."""
    for meanwhile in ("sent", "removed"):
        workshop = workshop_of(catalog, SMALL)
        ingest(workshop, "handbook", a="one two", b="four five")
        collection_id = id_of(catalog, "handbook")
        choose(catalog)
        workshop.parse_step.parse(collection_id)
        workshop.encode_step.encode(collection_id)
        now.pass_by(60)
        if meanwhile == "sent":
            catalog.accept(TENANT, "handbook", uploads(a="eight nine"))
        else:
            catalog.remove(TENANT, "handbook", [catalog.standing(TENANT, "handbook", "a", labels=None).id])
        for _ in steps(workshop, now):
            pass
        left = ["eight", "nine"] if meanwhile == "sent" else []
        assert searchable(catalog, "handbook") == sorted(["five", "four", *left])
        catalog.delete_collection(TENANT, "handbook")


def test_what_is_under_way_is_cut_by_the_new_choice_without_being_parsed_again(catalog: Catalog) -> None:
    workshop = workshop_of(catalog)
    accepted = catalog.accept(TENANT, "handbook", uploads(**LINES))
    collection_id = id_of(catalog, "handbook")
    workshop.parse_step.parse(collection_id)
    workshop.encode_step.encode(collection_id)
    job = choose(catalog)
    assert catalog.job(TENANT, job).total == 0, "the uploads' own job tells of them"
    workshop.work()
    assert searchable(catalog, "handbook") == ALL_WORDS
    assert workshop.parser.parsed == ["a", "b", "c"]
    assert catalog.job(TENANT, accepted.id).counts == {ItemState.PUBLISHED: 3}


def test_a_parser_that_works_while_the_choice_changes_loses_its_documents(catalog: Catalog) -> None:
    class ChangingParser(PlainParser):
        """The first document takes so long that somebody changes his mind."""

        def parse(self, upload: Upload, document_id: str) -> Document:
            if not self.parsed:
                choose(catalog)
            return super().parse(upload, document_id)

    workshop = workshop_of(catalog)
    workshop.parse_step._parser = ChangingParser()
    catalog.accept(TENANT, "handbook", uploads(**LINES))
    workshop.work()
    assert searchable(catalog, "handbook") == ALL_WORDS


def test_a_second_change_replaces_the_first(catalog: Catalog, now: Now) -> None:
    workshop = workshop_of(catalog, SMALL)
    ingest(workshop, "handbook", **LINES)
    first = choose(catalog)
    workshop.parse_step.parse(id_of(catalog, "handbook"))
    second = choose(catalog, chunking_of("tokens", 50))
    seen = list(steps(workshop, now))
    assert seen == [ALL_LINES] * (len(seen) - 1) + [ALL_WORDS]
    assert catalog.job(TENANT, first).state is JobState.CANCELLED
    assert catalog.job(TENANT, second).counts == {ItemState.PUBLISHED: 3}
    assert catalog.chunking(TENANT, "handbook").made_by == "words-50"


def test_the_same_choice_again_is_no_work(catalog: Catalog) -> None:
    workshop = workshop_of(catalog)
    ingest(workshop, "handbook", **LINES)
    assert catalog.choose_chunking(TENANT, "handbook", None) is None
    choose(catalog)
    workshop.work()
    assert catalog.choose_chunking(TENANT, "handbook", WORDS) is None
    assert workshop.backlog.due() == ()


def test_a_choice_can_come_before_the_first_document(catalog: Catalog) -> None:
    workshop = workshop_of(catalog)
    with pytest.raises(NotFound):
        catalog.chunking(TENANT, "handbook")
    assert catalog.job(TENANT, choose(catalog)).total == 0
    ingest(workshop, "handbook", a="one two")
    assert searchable(catalog, "handbook") == ["one", "two"]
    found = catalog.chunking(TENANT, "handbook")
    assert (found.chunking, found.made_by) == (WORDS, "words-100")
    with pytest.raises(InvalidInput):
        catalog.choose_chunking(TENANT, "no such/name", WORDS)


def test_the_choice_is_the_collections_own(catalog: Catalog) -> None:
    workshop = workshop_of(catalog)
    choose(catalog)
    ingest(workshop, "handbook", a="one two")
    ingest(workshop, "laws", a="one two")
    assert (searchable(catalog, "handbook"), searchable(catalog, "laws")) == (["one", "two"], ["one two"])


def test_what_the_document_says_of_itself_survives_another_cut(catalog: Catalog) -> None:
    class TellingParser(PlainParser):
        """Reads metadata off the document, as from the head of a Markdown file."""

        def parse(self, upload: Upload, document_id: str) -> Document:
            read = super().parse(upload, document_id)
            return Document(
                read.id, read.name, read.title, read.blocks, read.media_type, "en", {"author": "A", **upload.metadata}
            )

    workshop = workshop_of(catalog)
    workshop.parse_step._parser = TellingParser()
    catalog.accept(TENANT, "handbook", [Upload("a", b"one two", None, {"year": 2025})])
    workshop.work()
    choose(catalog)
    workshop.work()
    (document,) = catalog.documents(TENANT, "handbook")
    passages = catalog.passages(TENANT, "handbook", document.id)
    assert [passage.metadata for passage in passages] == [{"author": "A", "year": 2025}] * 2
    assert [(passage.parent, passage.start) for passage in passages] == [(f"{document.id}#0", n) for n in (0, 4)]


def test_passages_are_listed_in_order_by_the_page_to_those_who_may_see_them(catalog: Catalog) -> None:
    workshop = workshop_of(catalog)
    catalog.accept(TENANT, "handbook", [Upload("a", b"one\ntwo\nthree", access=("hr",)), Upload("b", b"four")])
    workshop.work()
    documents = {each.name: each.id for each in catalog.documents(TENANT, "handbook", labels=None)}

    def texts(name: str, **asked: object) -> list[str]:
        found = catalog.passages(TENANT, "handbook", documents[name], **asked)  # type: ignore[arg-type]
        return [passage.text for passage in found]

    assert texts("a", labels=frozenset({"hr"})) == ["one", "two", "three"]
    assert texts("a", labels=frozenset({"hr"}), after=0, limit=1) == ["two"]
    assert texts("b") == ["four"]
    with pytest.raises(NotFound):
        texts("a")


def test_passages_that_somebody_cut_himself_stay_as_they_were_sent(catalog: Catalog) -> None:
    ingest(Workshop(catalog, chunker=LineChunker("ready-1")), "handbook", a="one two")
    workshop = workshop_of(catalog)
    ingest(workshop, "handbook", b="four five")
    job = choose(catalog)
    workshop.work()
    assert searchable(catalog, "handbook") == ["five", "four", "one two"]
    assert catalog.job(TENANT, job).counts == {ItemState.PUBLISHED: 1}
