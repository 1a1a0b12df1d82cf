"""Prompts and contexts in few words, for tests that need one."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.passages import Candidate, Cited, Context, Hit, Leg, Passage, Prompt, Ranked, Turn


def cited(
    number: int,
    text: str,
    *,
    title: str = "",
    heading: tuple[str, ...] = (),
    language: str | None = None,
    similarity: float | None = None,
) -> Cited:
    """A numbered source that is one passage; with a similarity, one that the dense leg found."""
    passage = Passage(
        id=f"d{number}:0",
        document_id=f"d{number}",
        ordinal=0,
        text=text,
        tokens=len(text.split()),
        content_hash=f"{number:032x}",
        source=f"d{number}.md",
        title=title,
        heading=heading,
        language=language,
    )
    hits = () if similarity is None else (Hit(Leg.DENSE, number, similarity),)
    ranked = Ranked(Candidate(key=number, score=1 / number, hits=hits), score=1 / number)
    return Cited(number, ranked, (passage,), text, passage.tokens)


def context_of(*texts: str) -> Context:
    """A context whose sources are these texts, best first."""
    items = tuple(cited(number, text) for number, text in enumerate(texts, start=1))
    return Context(items, sum(item.tokens for item in items))


def prompt_of(
    question: str,
    context: Context,
    *,
    sampling: Mapping[str, object] | None = None,
    request_id: str = "",
    model: str = "",
) -> Prompt:
    """A prompt as plain as can be: the sources, then the question."""
    sources = "\n".join(f"[{item.number}] {item.text}" for item in context.items)
    return Prompt(
        messages=(Turn("system", f"Answer from the sources.\n{sources}"), Turn("user", question)),
        context=context,
        question=question,
        model=model,
        sampling=sampling or {},
        request_id=request_id,
    )
