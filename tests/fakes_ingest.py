"""Small stages for tests of the machinery around them: no model, no native library, nothing random.

A document is plain text, a passage per line. Words in it steer the parser: BROKEN cannot be read, FATAL kills the
process, SURPRISE raises what nobody foresaw, WAIT waits until the test opens the parser's gate, PARTLY is read with a
warning.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipeline.chunking import Chunking
from pipeline.errors import InvalidInput, Unparsable
from pipeline.passages import Block, Document, Passage, Upload, Vectors
from pipeline.ports import Chunker, GenerationRef, SegmentRef, Written

DIMENSIONS = 8


class PlainParser:
    """Reads UTF-8, and remembers what. Once it is `mended` it reads what was broken, too."""

    def __init__(self, gate: Path | None = None) -> None:
        self.parsed: list[str] = []
        self.mended = False
        self._gate = gate

    def parse(self, upload: Upload, document_id: str) -> Document:
        text = upload.content.decode("utf-8")
        if "FATAL" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "BROKEN" in text and not self.mended:
            raise Unparsable(f"'{upload.name}' is broken.")
        if "SURPRISE" in text and not self.mended:
            raise ValueError("nobody foresaw this")
        if self._gate is not None and "WAIT" in text:
            wait_at(self._gate, upload.name)
        self.parsed.append(upload.name)
        blocks = tuple(Block(line) for line in text.splitlines() if line.strip())
        warnings = (f"Of '{upload.name}' page 3 is an image.",) if "PARTLY" in text else ()
        title = upload.name.title()
        return Document(document_id, upload.name, title, blocks, "text/plain", "en", upload.metadata, warnings=warnings)


class LineChunker:
    """A passage per block."""

    def __init__(self, fingerprint: str = "lines-1") -> None:
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def chunk(self, document: Document) -> tuple[Passage, ...]:
        return tuple(
            Passage(
                id=f"{document.id}:{ordinal}",
                document_id=document.id,
                ordinal=ordinal,
                text=block.text,
                tokens=len(block.text.split()),
                content_hash=blake2b(block.text.encode(), digest_size=16).hexdigest(),
                source=document.name,
                language=document.language,
                metadata=document.metadata,
            )
            for ordinal, block in enumerate(document.blocks)
        )


class OneChunker:
    """The same chunker for every collection, whatever it has chosen; remembers what was asked for."""

    def __init__(self, chunker: Chunker) -> None:
        self._chunker = chunker
        self.asked: list[Chunking | None] = []

    def chunker(self, chosen: Chunking | None) -> Chunker:
        self.asked.append(chosen)
        return self._chunker


class HashEncoder:
    """Equal texts have equal vectors, and that is all they mean. Counts what it was asked."""

    def __init__(self, fingerprint: str = "hash-1") -> None:
        self.encoded: list[str] = []
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.encoded.extend(texts)
        data = b"".join(vector_of(text) for text in texts)
        return Vectors((len(texts), DIMENSIONS), "float32", memoryview(data))


def vector_of(text: str) -> bytes:
    """A unit vector of eight float32, from the text's hash."""
    raw = [byte - 127.5 for byte in blake2b(text.encode(), digest_size=DIMENSIONS).digest()]
    length = math.sqrt(sum(value * value for value in raw))
    return struct.pack(f"<{DIMENSIONS}f", *(value / length for value in raw))


class PlainWriter:
    """Segments and generations as files of JSON that a test can read; remembers which texts it has written."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []

    def write_segment(
        self, home: Path, passages: Iterable[Passage], vectors: Vectors, base: SegmentRef | None = None
    ) -> SegmentRef:
        rows = [
            {"id": p.id, "document": p.document_id, "text": p.text, "source": p.source, "metadata": dict(p.metadata)}
            for p in passages
        ]
        assert vectors.shape == (len(rows), DIMENSIONS)
        self.written.append([row["text"] for row in rows])
        data = bytes(vectors.data)
        content = json.dumps({"passages": rows, "vectors": data.hex()})
        kind = "delta" if base else "base"
        name = f"{kind}-{sha256(content.encode()).hexdigest()[:16]}"
        _written(home / "segments" / name, "passages.json", content)
        documents = len({row["document"] for row in rows})
        return SegmentRef(name, kind, documents, len(rows), base.average_length if base else 1.0)

    def write_generation(
        self,
        home: Path,
        collection: str,
        number: int,
        *,
        embedder: str,
        chunker: str,
        previous: GenerationRef | None,
        keep: Sequence[str],
        gone: Collection[str],
        added: SegmentRef | None,
        gone_from_added: Collection[str] = (),
    ) -> Written:
        before: list[dict[str, Any]] = _manifest(previous.folder)["segments"] if previous and keep else []
        assert {each["name"] for each in before} >= set(keep)
        kept = [
            {**each, "dead": sorted({*each["dead"], *gone})}
            for each in before
            if each["name"] in keep and (added is None or each["name"] != added.name)
        ]
        if added and not (home / "segments" / added.name).is_dir():
            raise InvalidInput(f"The segment {added.name} is not there.")
        new = [{**asdict(added), "dead": sorted(gone_from_added)}] if added else []
        parts = [*new, *kept] if added and added.kind == "base" else [*kept, *new]
        alive = {part["name"]: _alive(home, part) for part in parts}
        parts = [part for part in parts if part["kind"] == "base" or alive[part["name"]]]
        manifest = {"number": number, "embedder": embedder, "chunker": chunker, "segments": parts}
        content = json.dumps(manifest)
        assert not (home / f"g{number}").exists()
        _written(home / f"g{number}", "manifest.json", content)
        shown = [row for part in parts for row in alive[part["name"]]]
        refs = tuple(_ref(part) for part in parts)
        documents = len({row["document"] for row in shown})
        return Written(sha256(content.encode()).hexdigest(), refs, documents, len(shown))

    def segments(self, ref: GenerationRef) -> tuple[SegmentRef, ...]:
        return tuple(_ref(part) for part in _manifest(ref.folder)["segments"])


class PlainRemover:
    """Takes folders away and remembers their names."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove(self, folder: Path) -> None:
        self.removed.append(folder.name)
        shutil.rmtree(folder, ignore_errors=True)


def texts_in(folder: Path) -> list[str]:
    """The texts of a generation, each checked against its vector; no document is in it twice."""
    found: list[str] = []
    places: dict[str, str] = {}
    for part in _manifest(folder)["segments"]:
        for row in _alive(folder.parent, part):
            assert places.setdefault(row["document"], part["name"]) == part["name"]
            found.append(row["text"])
    return found


def layers_in(folder: Path) -> list[tuple[str, int]]:
    """The kinds of a generation's segments, and how many passages were written into each."""
    return [(part["kind"], part["passages"]) for part in _manifest(folder)["segments"]]


def _manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


def _alive(home: Path, part: dict[str, Any]) -> list[dict[str, Any]]:
    """In the order in which they were written; each passage has its own vector."""
    content = json.loads((home / "segments" / part["name"] / "passages.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = content["passages"]
    assert bytes.fromhex(content["vectors"]) == b"".join(vector_of(row["text"]) for row in rows)
    return [row for row in rows if row["document"] not in part["dead"]]


def _ref(part: dict[str, Any]) -> SegmentRef:
    return SegmentRef(**{name: value for name, value in part.items() if name != "dead"})


def _written(folder: Path, name: str, content: str) -> None:
    if folder.exists():
        return
    unfinished = folder.with_name(f".unfinished-{uuid4().hex}")
    unfinished.mkdir(parents=True)
    (unfinished / name).write_text(content, encoding="utf-8")
    unfinished.rename(folder)


def wait_at(gate: Path, name: str) -> None:
    """Tells the test that this document has been reached, then waits until somebody opens the pipe for writing."""
    (gate / "reached" / name).touch()
    os.close(os.open(gate / "pipe", os.O_RDONLY))
