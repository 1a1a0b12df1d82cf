"""Small valid files of every format with random damage: each ends as a document or with a reason."""

from __future__ import annotations

import random
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from ingest.formats.reading import ParsingOptions
from ingest.isolation import IsolatedParser, IsolationOptions
from ingest.parsing import Parsing
from pipeline.errors import TooLarge, Unparsable
from pipeline.passages import Document, Upload
from tests.ingest.test_hostile import SMALL_FILES

SEED = 20261201
ROUNDS = 40
LIMITS = ParsingOptions(content_bytes=2**20, unpacked_bytes=8 * 2**20, characters=500_000)
JUNK = (b"", b"\x00", b"\xff\xfe", b"<", b">", b"&", b'"', b"\n", b"9" * 20, b"-1", b"../..", b"{", b"\xf0\x9f\x98\x80")


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A few places changed, cut out, doubled or moved."""
    for _ in range(chance.randint(1, 6)):
        begin = chance.randrange(len(content) + 1)
        end = min(begin + chance.choice((0, 1, 2, 8, 64)), len(content))
        piece = chance.choice((chance.choice(JUNK), chance.randbytes(4), content[begin:end] * 2, b""))
        content = content[:begin] + piece + content[end:]
    return content


def damaged_inside(content: bytes, chance: random.Random) -> bytes:
    """One part of a zipped document damaged and zipped again, so that checksums are right and the XML is not."""
    buffer = BytesIO()
    with ZipFile(BytesIO(content)) as before, ZipFile(buffer, "w", ZIP_DEFLATED) as after:
        names = before.namelist()
        hit = chance.choice([name for name in names if name.endswith((".xml", ".rels"))])
        for name in names:
            part = before.read(name)
            after.writestr(name, damaged(part, chance) if name == hit else part)
    return buffer.getvalue()


def named(name: str, result: object) -> bool:
    """Whether it is a document, or a reason that names it."""
    return isinstance(result, Document) or f"'{name}'" in str(result)


def outcome(parser: Parsing | IsolatedParser, name: str, content: bytes) -> object:
    try:
        return parser.parse(Upload(name, content), "d1")
    except (Unparsable, TooLarge) as error:
        return error


@pytest.mark.parametrize("name", SMALL_FILES)
def test_damage_ends_as_a_document_or_with_a_reason(name):
    chance, content = random.Random(f"{SEED} {name}"), SMALL_FILES[name]()
    for _ in range(ROUNDS):
        assert named(name, outcome(Parsing(LIMITS), name, damaged(content, chance)))


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_damage_within_a_part_ends_as_a_document_or_with_a_reason(name):
    chance, content = random.Random(f"{SEED} inside {name}"), SMALL_FILES[name]()
    for _ in range(ROUNDS):
        assert named(name, outcome(Parsing(LIMITS), name, damaged_inside(content, chance)))


def test_a_reading_process_survives_all_of_it():
    chance = random.Random(f"{SEED} isolated")
    contents = [(name, damaged(make(), chance)) for name, make in SMALL_FILES.items() for _ in range(8)]
    with IsolatedParser(IsolationOptions(memory=2**30, seconds=20), LIMITS) as parser:
        for name, content in contents:
            there, here = outcome(parser, name, content), outcome(Parsing(LIMITS), name, content)
            assert type(there) is type(here)
            assert str(there) == str(here)
