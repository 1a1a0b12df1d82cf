"""Rolling back shows what a generation showed, in search and in the catalog alike, and can itself be taken back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from ingest.backlog import Backlog
from ingest.catalog import Catalog, CatalogOptions
from ingest.compacting import Compactions
from ingest.generations import Generations
from ingest.leases import LostLease
from ingest.schema import generations
from pipeline.errors import Conflict, NotFound
from pipeline.jobs import ItemState, JobState
from tests.conftest import Now
from tests.fakes_ingest import HashEncoder, LineChunker
from tests.ingesting import TENANT, Workshop, id_of, ingest, number_of, remove, searchable, uploads


def stood(catalog: Catalog) -> dict[str, int]:
    """What the catalog says: documents by name, with their passages."""
    return {each.name: each.passages for each in catalog.documents(TENANT, "handbook", limit=1000)}


def four(catalog: Catalog) -> Workshop:
    """Generation 1 has a and b, 2 another a, 3 c too, 4 no b."""
    workshop = Workshop(catalog)
    ingest(workshop, "handbook", a="one", b="two")
    ingest(workshop, "handbook", a="other\nlines")
    ingest(workshop, "handbook", c="three")
    remove(workshop, "handbook", "b")
    return workshop


def test_documents_and_search_are_as_they_were(catalog: Catalog) -> None:
    workshop = four(catalog)
    back = workshop.keeping.roll_back(TENANT, "handbook", 2)
    assert (back.number, back.current, back.restores, back.documents, back.passages) == (5, True, 2, 2, 3)
    assert searchable(catalog, "handbook") == ["lines", "other", "two"]
    assert stood(catalog) == {"a": 2, "b": 1}
    assert number_of(catalog, "handbook") == 5
    states = {info.number: (info.current, info.withdrawn) for info in workshop.keeping.list(TENANT, "handbook")}
    assert states == {5: (True, False), 4: (False, True), 3: (False, True), 2: (False, False), 1: (False, False)}


def test_publishing_goes_on_from_there(catalog: Catalog) -> None:
    workshop = four(catalog)
    workshop.keeping.roll_back(TENANT, "handbook", 1)
    ingest(workshop, "handbook", d="four")
    assert searchable(catalog, "handbook") == ["four", "one", "two"]
    assert stood(catalog) == {"a": 1, "b": 1, "d": 1}
    assert catalog.collection(TENANT, "handbook").documents == 3


def test_a_roll_back_can_be_taken_back(catalog: Catalog) -> None:
    workshop = four(catalog)
    workshop.keeping.roll_back(TENANT, "handbook", 1)
    workshop.keeping.roll_back(TENANT, "handbook", 4)
    assert searchable(catalog, "handbook") == ["lines", "other", "three"]
    assert stood(catalog) == {"a": 2, "c": 1}
    workshop.keeping.roll_back(TENANT, "handbook", 5)
    assert (searchable(catalog, "handbook"), stood(catalog)) == (["one", "two"], {"a": 1, "b": 1})


def test_the_same_upload_again_is_no_longer_unchanged(catalog: Catalog) -> None:
    workshop = four(catalog)
    workshop.keeping.roll_back(TENANT, "handbook", 2)
    job = catalog.job(TENANT, ingest(workshop, "handbook", c="three"))
    assert job.counts == {ItemState.PUBLISHED: 1}
    assert searchable(catalog, "handbook") == ["lines", "other", "three", "two"]


def test_what_was_accepted_before_is_published_on_top(catalog: Catalog) -> None:
    workshop = four(catalog)
    job = catalog.accept(TENANT, "handbook", uploads(d="four"))
    workshop.keeping.roll_back(TENANT, "handbook", 1)
    workshop.work()
    assert catalog.job(TENANT, job.id).state is JobState.DONE
    assert searchable(catalog, "handbook") == ["four", "one", "two"]


def test_documents_that_were_to_be_cut_anew_stay_as_they_are(catalog: Catalog) -> None:
    workshop = four(catalog)
    refresh = catalog.refresh(TENANT, "handbook")
    other = Workshop(catalog, chunker=LineChunker("lines-2"))
    other.parse_step.parse(id_of(catalog, "handbook"))
    workshop.keeping.roll_back(TENANT, "handbook", 1)
    other.work()
    assert catalog.job(TENANT, refresh.id).state is JobState.CANCELLED
    assert searchable(catalog, "handbook") == ["one", "two"]


def test_whoever_was_about_to_publish_or_to_compact_changes_nothing(catalog: Catalog) -> None:
    workshop = four(catalog)
    catalog.accept(TENANT, "handbook", uploads(d="four"))
    collection_id = id_of(catalog, "handbook")
    while workshop.parse_step.parse(collection_id) or workshop.encode_step.encode(collection_id):
        pass
    publisher = Generations(catalog, Backlog(catalog, "publisher"))
    compactions = Compactions(catalog, Backlog(catalog, "compactor"))
    plan, snapshot = publisher.begin(collection_id), compactions.begin(collection_id)
    assert plan is not None
    assert snapshot is not None
    made = workshop.publish_step._made(plan, None, lambda: True)
    workshop.keeping.roll_back(TENANT, "handbook", 1)
    with pytest.raises(LostLease, match="rolled back"):
        publisher.commit(plan, made, whole=True)
    with pytest.raises(LostLease, match="rolled back"):
        compactions.finish(snapshot, "{}")
    assert searchable(catalog, "handbook") == ["one", "two"]
    workshop.work()
    assert searchable(catalog, "handbook") == ["four", "one", "two"]


def test_deltas_upon_a_generation_that_was_rolled_back_to_show_each_document_once(catalog: Catalog) -> None:
    workshop = Workshop(catalog)
    first = {f"d{place:02}": f"text {place}" for place in range(20)}
    ingest(workshop, "handbook", **first)
    ingest(workshop, "handbook", d00="changed")
    ingest(workshop, "handbook", d01="changed too", d02="changed three")
    workshop.keeping.roll_back(TENANT, "handbook", 2)
    ingest(workshop, "handbook", d05="upon it")
    assert searchable(catalog, "handbook") == sorted((first | {"d00": "changed", "d05": "upon it"}).values())
    workshop.keeping.compact(TENANT, "handbook")
    workshop.work()
    assert searchable(catalog, "handbook") == sorted((first | {"d00": "changed", "d05": "upon it"}).values())


def test_only_what_is_kept_and_does_not_serve_already_can_be_rolled_back_to(catalog: Catalog) -> None:
    workshop = four(catalog)
    with pytest.raises(NotFound, match=r"no generation '9'. Known: 4, 3, 2, 1."):
        workshop.keeping.roll_back(TENANT, "handbook", 9)
    with pytest.raises(Conflict, match="serves already"):
        workshop.keeping.roll_back(TENANT, "handbook", 4)
    with pytest.raises(NotFound, match=r"no collection 'laws'. Known: handbook"):
        workshop.keeping.roll_back(TENANT, "laws", 1)
    catalog.accept(TENANT, "laws", uploads(a="one"))
    with pytest.raises(NotFound):
        workshop.keeping.pin(TENANT, "laws", 1)
    with pytest.raises(Conflict, match="Nothing of 'laws' is published"):
        workshop.keeping.ref(TENANT, "laws")


def test_vectors_of_another_embedder_are_not_rolled_back_to(catalog: Catalog) -> None:
    four(catalog)
    other = Workshop(catalog, encoder=HashEncoder("hash-2"))
    other.publish_step.renew_outdated()
    other.work()
    with pytest.raises(Conflict, match="embedder 'hash-1', and 'hash-2' is in use"):
        other.keeping.roll_back(TENANT, "handbook", 4)


def test_of_generations_of_an_earlier_release_only_the_last_can_be_rolled_back_to(catalog: Catalog) -> None:
    workshop = four(catalog)
    with catalog.database.writing() as connection:
        connection.execute(update(generations).where(generations.c.number <= 3).values(segments="[]"))
    with pytest.raises(Conflict, match="earlier release"):
        workshop.keeping.roll_back(TENANT, "handbook", 2)
    assert workshop.keeping.roll_back(TENANT, "handbook", 3).documents == 3


def test_dropping_forgets_what_nobody_reads_and_keeps_what_would_stand_in(catalog: Catalog, now: Now) -> None:
    workshop = four(catalog)
    workshop.keeping.pin(TENANT, "handbook", 1)
    now.pass_by(1)
    assert workshop.keeping.drop(TENANT, "handbook") == (2,)
    assert [info.number for info in workshop.keeping.list(TENANT, "handbook")] == [4, 3, 1]
    with pytest.raises(NotFound):
        workshop.keeping.roll_back(TENANT, "handbook", 2)
    workshop.keeping.roll_back(TENANT, "handbook", 1)
    assert searchable(catalog, "handbook") == ["one", "two"]


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.sampled_from("abcdef"), st.just(0)),
        st.tuples(st.just("compact"), st.just(""), st.just(0)),
        st.tuples(st.just("back"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("prune"), st.just(""), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=25)
@given(changes=CHANGES)
def test_any_sequence_of_changes_equals_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, int]]
) -> None:
    folder, now = tmp_path_factory.mktemp("model"), Now()
    options = CatalogOptions(f"sqlite:///{folder / 'catalog.db'}?timeout=5", folder / "generations")
    model = {f"base{place}": f"text {place}" for place in range(12)}
    kept: dict[int, dict[str, str]] = {}
    with Catalog.open(options, now) as catalog:
        workshop = Workshop(catalog)
        ingest(workshop, "handbook", **model)
        for action, name, number in changes:
            now.pass_by(400)
            if action == "put":
                model = {**model, name: f"{name} {number}"}
                ingest(workshop, "handbook", **{name: model[name]})
            elif action == "remove" and name in model:
                model = {each: text for each, text in model.items() if each != name}
                remove(workshop, "handbook", name)
            elif action == "compact":
                workshop.keeping.compact(TENANT, "handbook")
                workshop.work()
            elif action == "back" and number in kept:
                try:
                    workshop.keeping.roll_back(TENANT, "handbook", number)
                    model = kept[number]
                except (NotFound, Conflict):
                    assert number not in numbers(workshop) or number_is_served(workshop, number)
            elif action == "prune":
                workshop.pruning.prune()
            kept[number_of(catalog, "handbook")] = model
            assert searchable(catalog, "handbook") == sorted(model.values())
            assert stood(catalog).keys() == model.keys()
            assert catalog.collection(TENANT, "handbook").documents == len(model)


def numbers(workshop: Workshop) -> set[int]:
    return {info.number for info in workshop.keeping.list(TENANT, "handbook")}


def number_is_served(workshop: Workshop, number: int) -> bool:
    """Whether a generation, or the one that it restores, is what serves."""
    folders = {info.number: info.restores or info.number for info in workshop.keeping.list(TENANT, "handbook")}
    (current,) = (info.number for info in workshop.keeping.list(TENANT, "handbook") if info.current)
    return folders[number] == folders[current]
