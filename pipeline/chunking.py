"""How a collection's documents are cut into passages: a choice of its own, or the workers' default."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.errors import InvalidInput, Misconfigured

SHORTEST, LONGEST = 16, 8192  # what the longest passage may be set to, in tokens
USUAL = 200  # leaves a model of 256 positions some 50 for title and headings
TINY = 32  # tokens below which a section joins its neighbour, where nothing else is said


class Cut(StrEnum):
    """The ways to cut: fixed windows of tokens, whole sentences, a section a passage, or the document as one."""

    TOKENS = "tokens"
    SENTENCES = "sentences"
    HEADINGS = "headings"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Chunking:
    """A passage has `tokens` at most, of which `overlap` at most repeat the one before within its section.

    `minimum` is for cutting by sentences and headings: a section with fewer tokens joins its neighbour under the same
    top heading, as far as both fit. `whole` knows none of these.
    """

    chunker: Cut = Cut.SENTENCES
    tokens: int = USUAL
    overlap: int = 0
    minimum: int = TINY


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a collection has chosen, None for the workers' default, and what its current generation was cut by.

    `made_by` is the chunker's fingerprint, several joined by +; empty before the first generation.
    """

    chunking: Chunking | None
    made_by: str = ""


def chunking_of(
    chunker: str, tokens: int | None = None, overlap: int | None = None, minimum: int | None = None
) -> Chunking:
    """A choice from what somebody said of it; None stands for the default.

    Raises InvalidInput, naming what is possible, for an unknown chunker and for numbers that cannot work.
    """
    if chunker not in set(Cut):
        known = ", ".join(f"'{cut}'" for cut in Cut)
        raise InvalidInput(f"There is no chunker '{chunker[:40]}'. Choose one of {known}.", field="chunker")
    cut = Cut(chunker)
    given = {"tokens": tokens, "overlap": overlap, "minimum": minimum}
    if cut is Cut.WHOLE:
        _refuse(given, cut, "a document is one passage, however long it is")
        return Chunking(cut, LONGEST, 0, 0)
    if cut is Cut.TOKENS:
        _refuse({"minimum": minimum}, cut, "its windows run over headings")
    longest = USUAL if tokens is None else tokens
    _check("tokens", longest, SHORTEST, LONGEST)
    usual = min(TINY, longest) if cut is Cut.SENTENCES else 0
    made = Chunking(cut, longest, overlap or 0, usual if minimum is None else minimum)
    _check("overlap", made.overlap, 0, longest // 2)
    _check("minimum", made.minimum, 0, longest)
    return made


def chunking_set(chunker: str, tokens: int, overlap: int) -> Chunking:
    """What the settings say. Raises Misconfigured, naming the one that cannot work."""
    try:
        # The sizes have defaults, and mean nothing to the chunker that knows none.
        return chunking_of(chunker) if chunker == Cut.WHOLE else chunking_of(chunker, tokens, overlap)
    except InvalidInput as error:
        setting = {"chunker": "CHUNKER", "overlap": "CHUNK_OVERLAP"}.get(error.field or "", "CHUNK_TOKENS")
        raise Misconfigured(f"FLEETFOOT_{setting} cannot be used: {error}") from None


def _refuse(given: dict[str, int | None], cut: Cut, why: str) -> None:
    for field, value in given.items():
        if value is not None:
            raise InvalidInput(f"'{field}' means nothing to the chunker '{cut}': {why}. Leave it out.", field=field)


def _check(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        bound = f"{most}, half of 'tokens'" if field == "overlap" else f"{most}"
        raise InvalidInput(f"'{field}' is {value}; it can be {least} to {bound}.", field=field)
