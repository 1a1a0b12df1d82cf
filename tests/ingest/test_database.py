"""A database that is away or locked is told apart from a statement that cannot work."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, ProgrammingError

from ingest.catalog import Catalog, CatalogOptions
from ingest.database import Database
from ingest.working import BatchOptions, ParseStep
from pipeline.errors import Unavailable
from pipeline.jobs import ItemState
from pipeline.passages import Document, Upload
from tests.fakes_ingest import LineChunker, OneChunker, PlainParser
from tests.ingesting import TENANT, Workshop, id_of, searchable, uploads
from tests.postgres import missing, postgres_server


class ParserOfAnOutage(PlainParser):
    """The catalog goes away while a document is at work, once."""

    def __init__(self) -> None:
        super().__init__()
        self.away = True

    def parse(self, upload: Upload, document_id: str) -> Document:
        if self.away:
            self.away = False
            raise Unavailable("connection lost")
        return super().parse(upload, document_id)


def test_a_locked_database_is_unavailable(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'catalog.db'}?timeout=0.01"
    with (
        Database.open(url) as first,
        Database.open(url) as second,
        first.writing(),
        pytest.raises(Unavailable, match="Try again") as caught,
        second.writing(),
    ):
        pass
    assert "locked" in caught.value.detail


@pytest.mark.postgres
@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_a_database_that_went_away_is_unavailable_and_its_error_tells_no_document(tmp_path: Path) -> None:
    with ExitStack() as running:
        url = running.enter_context(postgres_server()).emptied()
        with Catalog.open(CatalogOptions(url, tmp_path)) as catalog:
            catalog.check()
            running.close()
            for _ in range(2):  # on a connection from the pool, and on a new one
                with pytest.raises(Unavailable) as caught:
                    catalog.accept(TENANT, "handbook", uploads(secret="secret"))
                assert caught.value.detail
                assert "secret" not in f"{caught.value}{caught.value.detail}"
            with pytest.raises(Unavailable):
                catalog.check()


def test_a_statement_that_cannot_work_is_no_outage(catalog: Catalog) -> None:
    with (
        pytest.raises((OperationalError, ProgrammingError), match="nothing"),
        catalog.database.reading() as connection,
    ):
        connection.execute(text("SELECT 1 FROM nothing"))


def test_an_outage_while_a_document_is_read_is_not_the_documents_fault(catalog: Catalog) -> None:
    job = catalog.accept(TENANT, "handbook", uploads(a="one"))
    step = ParseStep(catalog, ParserOfAnOutage(), OneChunker(LineChunker()), lambda _: None, BatchOptions())
    with pytest.raises(Unavailable):
        step.parse(id_of(catalog, "handbook"))
    assert catalog.job(TENANT, job.id).counts == {ItemState.ACCEPTED: 1}
    catalog.now.pass_by(60)  # type: ignore[attr-defined]  # the fixture's clock
    Workshop(catalog).work()
    assert searchable(catalog, "handbook") == ["one"]
