"""The example handbook's 60 questions, asked of a real service as a chat app would ask them.

    python -m benchmarks.handbook [--data FOLDER] [--json FILE]

The handbook is ingested into a new service (or the one that FOLDER holds already), and each question is streamed from
/v1/chat/completions with the default profile; a follow-up comes after its earlier turns and the service's own answers
to them. A second request for the same question ranks 50 passages with nothing left out, for nDCG@10 of the documents,
each placed by its best passage. Nothing is drawn by chance: the figures repeat on the same data folder, unless a
machine under load makes a stage late, which is told. A new ingest gives documents new ids, by which equal fused scores
are told apart; that moves an answer in a question or two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytrec_eval
from rich.console import Console
from rich.table import Table

from benchmarks.service import service
from fleetfoot.client import Client, Json, connect
from fleetfoot.demo import free_port
from fleetfoot.ingesting import ingest
from tests.examples.handbook import HANDBOOK, Question, judgements, plain, questions

COLLECTION = "handbook"
DEEP = {
    "top_k": 50,
    "token_budget": 100_000,
    "rerank": {"depth": 0},
    "pack": {"similarity": 1.01, "join_neighbours": False},
}
EMPHASIS = re.compile(r"\*\*|__|`")


@dataclass(frozen=True, slots=True)
class Row:
    """One question. `in_context` and `in_answer` are shares of its reference's items; None where there is none."""

    id: str
    kind: str
    language: str
    answerable: bool
    text: str
    answer: str
    cited: tuple[str, ...]
    ndcg: float | None
    best_cited: bool | None
    in_context: float | None
    in_answer: float | None
    declined: bool
    first_token_ms: float
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A streamed answer and fleetfoot's own field beside it."""

    text: str
    extension: Json
    first_token: float


async def asked(client: Client, messages: Sequence[Json], **fields: Any) -> Answered:
    """Streams one answer, noting the seconds until its first words."""
    body = {"model": COLLECTION, "messages": list(messages), "stream": True, **fields}
    began = time.perf_counter()
    first = 0.0
    text: list[str] = []
    extension: Json = {}
    async for _, data in client.events("POST", "/v1/chat/completions", body):
        if data == "[DONE]":
            break
        event = json.loads(data)
        extension = event.get("fleetfoot", extension)
        for choice in event["choices"]:
            if piece := choice["delta"].get("content"):
                first = first or time.perf_counter() - began
                text.append(piece)
    return Answered("".join(text), extension, first)


async def conversation(client: Client, question: Question) -> list[Json]:
    """The messages up to the question, answered by the service itself."""
    messages: list[Json] = []
    for turn in question.conversation:
        messages.append({"role": "user", "content": turn})
        messages.append({"role": "assistant", "content": (await asked(client, messages)).text})
    return [*messages, {"role": "user", "content": question.text}]


async def measured(client: Client, question: Question, grades: dict[str, int]) -> Row:
    """Asks one question and compares what comes with what the judgements say."""
    messages = await conversation(client, question)
    answered = await asked(client, messages)
    deep = await asked(client, messages, retrieval=DEEP)
    numbers = {citation["number"] for citation in answered.extension["citations"]}
    passages = answered.extension["passages"]
    cited = tuple(dict.fromkeys(each["source"] for each in passages if each["number"] in numbers))
    best = {name for name, grade in grades.items() if grade == max(grades.values())}
    held = question.answer is not None
    return Row(
        question.id,
        question.kind,
        question.language,
        question.answerable,
        question.text,
        answered.text,
        cited,
        ndcg(grades, [each["source"] for each in deep.extension["passages"]]) if grades else None,
        not best.isdisjoint(cited) if best else None,
        share(question, [each["text"] for each in passages]) if held else None,
        share(question, [answered.text]) if held else None,
        not cited,
        1000 * answered.first_token,
        tuple(f"{each['stage']}: {each['reason']}" for each in answered.extension["degraded"] if unwanted(each)),
    )


def unwanted(degraded: Json) -> bool:
    """Whether something was given up that the default service has."""
    return degraded["reason"] in {"out_of_time", "overloaded", "failed"}


def ndcg(grades: dict[str, int], sources: Iterable[str]) -> float:
    """nDCG@10 of documents in the order of their best passages, by pytrec_eval."""
    documents = list(dict.fromkeys(sources))
    run = {name: float(len(documents) - rank) for rank, name in enumerate(documents)}
    judged = pytrec_eval.RelevanceEvaluator({"q": grades}, {"ndcg_cut.10"}).evaluate({"q": run})
    return float(judged["q"]["ndcg_cut_10"]) if judged else 0.0


def share(question: Question, texts: Iterable[str]) -> float:
    """The share of the reference answer's items that stand in one of the texts; case and emphasis do not count."""
    said = [plain(EMPHASIS.sub("", text)) for text in texts]
    assert question.answer is not None
    items = question.answer.split("; ") if question.kind == "list" else [question.answer]
    found = [any(re.search(rf"(?<!\d){re.escape(plain(item))}(?!\d)", text) for text in said) for item in items]
    return mean(found)


async def ask_all(url: str, console: Console) -> list[Row]:
    """Ingests what is not there yet, then asks everything, one after the other."""
    grades: dict[str, dict[str, int]] = {}
    for each in judgements():
        grades.setdefault(each.query, {})[each.document] = each.grade
    async with connect(url) as client:
        await ingest(client, COLLECTION, [HANDBOOK], console, wait=True)
        await asked(client, [{"role": "user", "content": "What is this about?"}])
        return [await measured(client, question, grades.get(question.id, {})) for question in questions()]


def table(rows: Sequence[Row]) -> Table:
    """By kind and by language, then all; shares in percent, a dash where a share has nothing to be of."""
    shown = Table(title=f"the handbook's {len(rows)} questions, default profile")
    for heading in ("", "questions", "nDCG@10", "best cited", "in context", "in answer", "declined", "TTFT ms"):
        shown.add_column(heading, justify="right" if heading else "left")
    groups: list[tuple[str, Callable[[Row], bool]]] = [
        *((kind, lambda row, kind=kind: row.kind == kind) for kind in dict.fromkeys(row.kind for row in rows)),
        *(
            (f"asked in {language}", lambda row, language=language: row.language == language)
            for language in dict.fromkeys(row.language for row in rows)
        ),
        ("answerable", lambda row: row.answerable),
        ("all", lambda _: True),
    ]
    for name, belongs in groups:
        group = [row for row in rows if belongs(row)]
        shown.add_row(
            name,
            str(len(group)),
            figure((row.ndcg for row in group), "{:.3f}"),
            figure(row.best_cited for row in group),
            figure(row.in_context for row in group),
            figure(row.in_answer for row in group),
            f"{sum(row.declined for row in group)} of {len(group)}",
            f"{median(row.first_token_ms for row in group):.1f}",
        )
    return shown


def figure(values: Iterable[float | None], form: str = "{:.0%}") -> str:
    """Their mean, of those that are there."""
    present = [value for value in values if value is not None]
    return form.format(mean(present)) if present else "-"


def main() -> None:
    """Prints the table; writes the rows where asked to."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", type=Path, help="a data folder to use and keep; default: a new one, removed")
    options.add_argument("--json", type=Path, help="a file for one row per question")
    given = options.parse_args()
    console = Console(width=130)
    with tempfile.TemporaryDirectory(prefix="fleetfoot-handbook-") as folder:
        data = given.data or Path(folder)
        with service(data, free_port(8091, console)) as running:
            rows = asyncio.run(ask_all(running.url, console))
    console.print(table(rows))
    late = [f"{row.id} {' '.join(row.degraded)}" for row in rows if row.degraded]
    if late:
        console.print(f"Given up under load, so the figures may not repeat: {'; '.join(late)}")
    if given.json:
        given.json.write_text("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    main()
