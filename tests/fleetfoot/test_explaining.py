"""`fleetfoot explain` and `fleetfoot chunking` over a real door."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from fleetfoot.explaining import show_explanation
from pipeline.explaining import DocumentState, Standing
from tests.fakes_api import Service
from tests.fleetfoot.conftest import QuickCatalog, fleetfoot, served

PUBLISHED = Standing("notice", "notice.md", DocumentState.PUBLISHED, 1)
PLACE = {
    "rank": 131,
    "score": 2.5,
    "of": 900,
    "served": None,
    "terms": [{"term": "refund", "score": 2.5, "passages": 9}],
}


def knowing() -> QuickCatalog:
    catalog = QuickCatalog()
    catalog.standings = {"notice.md": PUBLISHED}
    return catalog


def shown(**told: object) -> str:
    """What is printed for an answer, on 120 columns."""
    answer = {
        "document": {
            "id": "d", "name": "a [b].md", "state": "published", "passages": 1, "changing": False, "reason": "",
        },
        "generation": "handbook@7", "verdict": "candidates", "said": "It is beyond.", "passages": [], "degraded": [],
    }  # fmt: skip
    output = StringIO()
    show_explanation({**answer, **told}, Console(file=output, width=120))
    return output.getvalue()


def test_a_document_is_explained_in_aligned_rows() -> None:
    with served(catalog=knowing()) as service:
        done = fleetfoot("explain", "notice period", "notice.md", "-c", "handbook", url=service.url)
    assert done.exit_code == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[:4] == [
        "notice.md (notice)",
        " in the catalog  published, 1 passages",
        "       searched  handbook@7",
        "        verdict  packed: It is source 2.",
    ]
    assert lines[5].split() == ["passage", "lexical", "score", "fused", "rerank", "final", "source", "verdict"]
    assert lines[6].split() == ["0", "2", "of", "3", "8.000", "2", "–", "2", "[2]", "packed"]
    assert "lexical 8.00 = leav 8.00" in done.stdout
    assert "The notice period is three months." in done.stdout


def test_for_programs_there_is_one_object() -> None:
    with served(catalog=knowing()) as service:
        done = fleetfoot("explain", "notice", "notice.md", "-c", "handbook", "-k", "1", "--json", url=service.url)
    assert json.loads(done.stdout)["verdict"] == "top_k"
    assert done.stderr == ""


def test_a_filter_can_be_given_as_for_a_search() -> None:
    with served(catalog=knowing()) as service:
        done = fleetfoot("explain", "notice", "notice.md", "-c", "handbook", "-f", "year>=2024", url=service.url)
        ((query, _),) = service.stages.explainer.asked
    assert done.exit_code == 0, done.stderr
    assert query.filter is not None


def test_an_unknown_document_is_told_in_one_line(service: Service) -> None:
    done = fleetfoot("explain", "notice", "notice.md", "-c", "handbook", url=service.url)
    assert done.exit_code == 0, done.stderr
    assert "in the catalog  unknown" in done.stdout
    assert "not_indexed: There is no such document." in done.stdout


def test_what_no_leg_brought_has_its_exact_ranks_and_no_others() -> None:
    passage = {
        "id": "d:0", "text": "far", "heading": ["A", "B"], "page": 3, "tokens": 1, "verdict": "candidates",
        "said": "It is beyond.", "legs": {"lexical": PLACE, "dense": {**PLACE, "rank": 7, "served": 9}},
        "fused": None, "rerank_score": None, "final": None, "number": None, "instead": None,
    }  # fmt: skip
    told = shown(passages=[passage])
    assert "a [b].md" in told, "brackets are no markup"
    row = next(line for line in told.splitlines() if line.startswith("0 "))
    assert row.split() == ["0", "131", "of", "900", "2.500", "7/9", "of", "900", "2.500", *["–"] * 4, "candidates"]
    assert "d:0  A › B (p. 3)" in told


def test_many_passages_are_cut_short_and_what_was_given_up_is_told() -> None:
    passage = {
        "text": "far", "heading": [], "page": None, "tokens": 1, "verdict": "top_k", "said": "Late.", "legs": {},
        "fused": None, "rerank_score": 0.5, "final": 3, "number": None, "instead": None,
    }  # fmt: skip
    told = shown(
        passages=[{**passage, "id": f"d:{number}"} for number in range(30)],
        degraded=[{"stage": "rerank", "reason": "out_of_time", "detail": "scored 3 of 9"}],
    )
    assert "… and 10 more passages" in told
    assert "given up: rerank (out_of_time: scored 3 of 9)" in told


def test_how_a_collection_is_cut_is_shown_and_chosen(service: Service) -> None:
    done = fleetfoot("chunking", "handbook", url=service.url)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("handbook: as the workers' settings say (FLEETFOOT_CHUNKER)\n")
    done = fleetfoot(
        "chunking", "handbook", "--chunker", "tokens", "--tokens", 64, "--overlap", 8, "--no-wait", url=service.url
    )
    assert done.stdout.splitlines()[0] == "handbook: tokens (tokens 64, overlap 8)"
    done = fleetfoot("chunking", "handbook", "--chunker", "default", "--no-wait", "--json", url=service.url)
    assert json.loads(done.stdout)["chunker"] is None


def test_a_choice_that_cannot_work_says_what_can(service: Service) -> None:
    done = fleetfoot("chunking", "handbook", "--chunker", "pages", url=service.url)
    assert done.exit_code == 1
    assert "'sentences'" in done.stderr
