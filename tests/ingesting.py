"""A worker's steps in one process, over fake stages, for tests of the catalog and of publishing."""

from __future__ import annotations

from sqlalchemy import select

from ingest.backlog import Backlog, Step
from ingest.catalog import Catalog
from ingest.compacting import CompactStep
from ingest.keeping import Keeping
from ingest.pruning import Pruning
from ingest.publishing import PublishStep
from ingest.schema import collections
from ingest.working import BatchOptions, EncodeStep, ParseStep
from pipeline.passages import Upload
from pipeline.ports import Chunker, Chunkers, GenerationWriter
from tests.fakes_ingest import HashEncoder, LineChunker, OneChunker, PlainParser, PlainRemover, PlainWriter, texts_in

TENANT = "acme"


class Workshop:
    """Everything that workers do, one step after the other."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        chunker: Chunker | None = None,
        chunkers: Chunkers | None = None,
        encoder: HashEncoder | None = None,
        writer: GenerationWriter | None = None,
        options: BatchOptions | None = None,
    ) -> None:
        self.catalog = catalog
        self.parser = PlainParser()
        self.encoder = encoder or HashEncoder()
        self.told: list[str] = []
        batches = options or BatchOptions()
        self.backlog = Backlog(catalog)
        self.parse_step = ParseStep(
            catalog, self.parser, chunkers or OneChunker(chunker or LineChunker()), self.told.extend, batches
        )
        self.encode_step = EncodeStep(catalog, self.encoder, self.told.extend, batches)
        self.writer = writer or PlainWriter()
        self.publish_step = PublishStep(catalog, self.encoder, self.encode_step, self.writer, self.told.extend)
        self.compact_step = CompactStep(catalog, self.writer, self.told.extend)
        self.pruning = Pruning(catalog, self.backlog, PlainRemover())
        self.keeping = Keeping(catalog)

    def work(self) -> None:
        """Does what is due until nothing is."""
        for _ in range(200):
            self.backlog.recover()
            due = self.backlog.due()
            if not due:
                return
            steps = {
                Step.PARSE: self.parse_step.parse,
                Step.ENCODE: self.encode_step.encode,
                Step.PUBLISH: self.publish_step.publish,
                Step.COMPACT: self.compact_step.compact,
            }
            steps[due[0].step](due[0].collection_id)
        raise AssertionError("the work never ends")


def ingest(workshop: Workshop, name: str, **texts: str) -> str:
    """Accepts documents by name, does the work, and returns the job's id."""
    job = workshop.catalog.accept(TENANT, name, uploads(**texts))
    workshop.work()
    return job.id


def remove(workshop: Workshop, name: str, *names: str) -> None:
    """Removes documents by name, and does the work."""
    catalog = workshop.catalog
    ids = [each.id for each in catalog.documents(TENANT, name, limit=1000) if each.name in names]
    assert len(ids) == len(names)
    catalog.remove(TENANT, name, ids)
    workshop.work()


def number_of(catalog: Catalog, name: str) -> int:
    """The number of the current generation."""
    ref = catalog.current(TENANT, name)
    assert ref is not None
    return ref.number


def uploads(**texts: str) -> list[Upload]:
    return [Upload(name, text.encode()) for name, text in texts.items()]


def searchable(catalog: Catalog, name: str) -> list[str]:
    """The texts of the current generation, sorted."""
    ref = catalog.current(TENANT, name)
    return [] if ref is None else sorted(texts_in(ref.folder))


def id_of(catalog: Catalog, name: str) -> str:
    """The collection's own id, which tasks are given."""
    with catalog.database.reading() as connection:
        query = select(collections.c.id).where(collections.c.name == name, collections.c.tenant == TENANT)
        return connection.scalars(query).one()
