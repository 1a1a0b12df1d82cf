"""Dry runs read and cut as workers do it, in processes of their own that a document may kill, and hear what repeats."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from ingest.chunkers import ChosenChunkers
from ingest.echoes import NEAR, Echoes, runs_of
from ingest.parsing import Parsing
from ingest.previewing import IsolatedPreviewer, PreviewOptions
from pipeline.chunking import Chunking, Cut
from pipeline.errors import Misconfigured, Unparsable
from pipeline.passages import Passage, Upload
from pipeline.previews import Echo
from tests.fakes_shelf import make_passage
from tests.small_tokenizer import write_tokenizer

MARKDOWN = "# Leave\n\n" + "Everybody has some days of leave each year. " * 30 + "\n\n# Sick\n\nStay at home."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture(scope="module")
def previewer(tokenizer: Path) -> Generator[IsolatedPreviewer]:
    with IsolatedPreviewer.open(PreviewOptions(tokenizer, Chunking(tokens=64))) as opened:
        yield opened


def upload(name: str, text: str) -> Upload:
    return Upload(name, text.encode())


@pytest.mark.parametrize("chosen", [None, Chunking(Cut.HEADINGS, 128, 0, 0), Chunking(Cut.TOKENS, 32, 8, 0)], ids=str)
def test_a_document_is_cut_as_a_worker_would_cut_it(
    previewer: IsolatedPreviewer, tokenizer: Path, chosen: Chunking | None
) -> None:
    preview = previewer.preview(upload("a.md", MARKDOWN), "d1", chosen, 0)
    document = Parsing().parse(upload("a.md", MARKDOWN), "d1")
    wanted = ChosenChunkers.open(tokenizer, Chunking(tokens=64)).chunker(chosen).chunk(document)
    assert preview.document == document
    assert len(wanted) > 1
    shown = [(p.id, p.text, p.tokens, p.content_hash, p.heading, p.page) for p in preview.passages]
    assert shown == [(p.id, p.text, p.tokens, p.content_hash, p.heading, p.page) for p in wanted]


def test_what_repeats_is_heard_within_a_request_and_forgotten_after_it(previewer: IsolatedPreviewer) -> None:
    text = "Nobody may take all of the leave at once. Ask your head first, and in time."
    previewer.preview(upload("a.txt", text), "d1", None, 0)
    second = previewer.preview(upload("b.txt", text), "d2", None, 1)
    assert second.echoes == {0: Echo(0, 0, 1.0)}
    assert previewer.preview(upload("c.txt", text), "d3", None, 0).echoes == {}


def test_a_document_that_cannot_be_read_says_why_and_harms_nobody(previewer: IsolatedPreviewer) -> None:
    with pytest.raises(Unparsable, match=r"'x\.pdf'"):
        previewer.preview(Upload("x.pdf", b"%PDF-1.7 nothing"), "d1", None, 0)
    assert previewer.preview(upload("a.txt", "Fine."), "d2", None, 1).passages


def test_a_process_that_cuts_too_long_is_ended_and_replaced(tokenizer: Path) -> None:
    with IsolatedPreviewer.open(PreviewOptions(tokenizer, Chunking(), seconds=30.0)) as previewer:
        previewer.preview(upload("a.txt", "Fine."), "d1", None, 0)
        cutter = previewer._cutter
        assert cutter is not None
        cutter.process.kill()
        cutter.process.wait()
        with pytest.raises(Unparsable, match=r"'b\.txt' was read, and cutting it was given up.*Split it"):
            previewer.preview(upload("b.txt", "Fine, too."), "d2", None, 1)
        assert previewer.preview(upload("c.txt", "Fine again."), "d3", None, 2).passages
        last = previewer._cutter
    assert last is not None
    assert last.process.poll() is not None, "it ends with the service"


def test_a_tokenizer_that_is_not_there_is_told_when_somebody_asks(tmp_path: Path) -> None:
    with (
        IsolatedPreviewer.open(PreviewOptions(tmp_path / "none.json", Chunking())) as previewer,
        pytest.raises(Misconfigured, match="did not start"),
    ):
        previewer.preview(upload("a.txt", "Fine."), "d1", None, 0)


def test_near_is_by_shared_runs_of_three_words() -> None:
    words = [f"word{number}" for number in range(100)]
    first, near, far = " ".join(words), " ".join([*words[:95], "x"]), " ".join([*words[:50], *"abcdefghij"])
    heard = Echoes()
    assert heard.hear(0, _passages(first)) == {}
    echo = heard.hear(1, _passages(near))[0]
    assert (echo.document, echo.ordinal) == (0, 0)
    a, b = runs_of(first), runs_of(near)
    assert echo.similarity == round(len(a & b) / len(a | b), 3) >= NEAR
    assert heard.hear(2, _passages(far)) == {}
    assert heard.hear(3, _passages("Two words", "TWO words!", "two")) == {1: Echo(3, 0, 1.0)}


def test_boilerplate_that_everybody_has_costs_little_and_finds_nobody() -> None:
    heard = Echoes()
    footer = "all rights reserved by the company and by nobody else in the world"
    for place in range(2000):
        assert heard.hear(place, _passages(f"{footer} " + " ".join(f"w{place}x{n}" for n in range(30)))) == {}


def _passages(*texts: str) -> list[Passage]:
    return [make_passage("d", ordinal, text) for ordinal, text in enumerate(texts)]
